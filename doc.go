// Package belay holds the tests that guard the layout of the module: which package may
// import which. The program is in cmd/belay, the library in the folders beside it; the
// README has the map.
package belay
