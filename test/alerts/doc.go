// Package alerts holds the test of config/monitoring/alerts.yaml, by Prometheus' own
// parser and engine. It is a module of its own, for these bring along a cloud's worth of
// dependencies.
package alerts
