// Package alerts tests config/monitoring/alerts.yaml with Prometheus' own parser and
// engine. It is a separate module because of their many dependencies.
package alerts
