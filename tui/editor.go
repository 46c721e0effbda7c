package tui

import tea "github.com/charmbracelet/bubbletea"

func (m *Model) openEditor() tea.Cmd {
	m.say("choose a listener of the application first", false)
	return nil
}
