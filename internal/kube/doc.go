// Package kube holds what two or more controllers need to speak to the API
// server: Events that are not repeated, conditions, one status write, a watch on
// Secrets that keeps none of them.
//
// It decides nothing: which cause to report is the caller's.
package kube
