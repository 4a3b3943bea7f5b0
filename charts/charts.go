// Package charts embeds the Helm chart without its directory files, which contains links to the
// manifests that package config embeds.
package charts

import "embed"

// Bongsu contains the directory bongsu.
//
//go:embed bongsu/Chart.yaml bongsu/values.yaml bongsu/values.schema.json all:bongsu/templates
var Bongsu embed.FS
