// Package helm installs, upgrades and removes the chart with the real Helm, which this
// module of its own builds: what it depends on is no business of the operator's.
package helm
