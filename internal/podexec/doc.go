// Package podexec runs commands in containers, for checks and backups. A command has
// a deadline that ends it where the image has a shell; its output is bounded; and
// whether it ended is told apart from how.
//
// It runs nothing by itself and decides nothing about what a result means.
package podexec
