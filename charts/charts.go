// Package charts embeds the Helm chart, without its folder files: that is a copy of
// manifests in config, which are embedded there.
package charts

import "embed"

// Bongsu holds the folder bongsu.
//
//go:embed bongsu/Chart.yaml bongsu/values.yaml bongsu/values.schema.json all:bongsu/templates
var Bongsu embed.FS
