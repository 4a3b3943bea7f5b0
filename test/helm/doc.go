// Package helm installs, upgrades and removes the chart with Helm. It is a separate module,
// so that Helm is not a dependency of the operator.
package helm
