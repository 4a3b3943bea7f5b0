// Package chart renders the Helm chart that this binary was built with, as Helm does:
// values, their schema, templates. It is where manifests of an installation come from,
// and the only place that knows Helm; it asks no cluster and applies nothing.
package chart
