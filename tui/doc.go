// Package tui is belay's dashboard: what is every listener doing, what changed
// just before, and pausing, resuming and scaling with a confirmation that shows
// the change first.
//
// [Run] takes a [Backend] and has the terminal until the user quits. The
// dashboard shows immutable snapshots that it reads at most ten times a second;
// it never waits for anything in its loop, so it answers keys while every server
// is away. All writing goes through the backend's Plan and Apply: the dashboard
// itself decides nothing about files and makes no domain facts.
//
// How it is built: one root [Model] routes keys and messages. Screens and
// dialogs are plain structs with methods; dialogs are a stack that sees keys
// first. Commands (functions run beside the loop) do the slow things and hand back a
// message; they never change the model's state.
//
// Folders below: keys is the key map (also of the help screen and the README),
// input joins and splits what the terminal sends, table the virtual table, cell
// the cleaning and measuring of text, style the looks, when the times people
// type, report the incident note, quiet the guard that keeps Bubble Tea from
// querying the terminal in commands that have no screen.
package tui
