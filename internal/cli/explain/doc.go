// Package explain finds out why an object does not run: it reads the object, what
// belongs to it and its Events, and has the diagnosis judge them.
//
// It reads with the rights of whoever asks, and never more than that: what may not
// be read is named, and the rest is explained. Logs are read here and nowhere else.
package explain
