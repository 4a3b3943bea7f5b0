// Package podexec runs commands in containers, for checks and backups. A command has
// a deadline that ends it where the image has a shell; its output is bounded; and
// whether it ended is told apart from how.
//
// It runs nothing by itself, never runs a command twice, and decides nothing about
// what a result means.
//
// # What an exec does not tell
//
// To hang up does not end the command. And of a command whose node was lost sight of,
// the API server says that it ended well: a stream that breaks on that side looks like
// one that is over. So where the image has a shell, and with it sleep, a watchdog is
// put around the command: it ends the command at its deadline, and reports how the
// command ended on the stream itself. What has no such report has not succeeded.
//
// Whether there is a shell is asked of each container, once: by a run of its own, as
// the answers of nodes to a missing program differ. In an image without one the
// command runs as it is. It ends when it likes, and its exit code 0 is taken on trust.
package podexec
