// Package owner is what the controllers of kinds that are made of other objects have
// in common: bringing about the children, telling why they do not run, and telling it
// once. What the children look like is decided in package workload; when to bear with
// them is the controllers' own.
package reconciler
