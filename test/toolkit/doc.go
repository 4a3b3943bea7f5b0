// Package toolkit tests that other modules can use pkg/. The modules are in temporary directories,
// outside of this one.
package toolkit
