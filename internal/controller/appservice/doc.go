// Package appservice makes apps of AppServices: a Deployment and a Service, health
// checks of each pod that watches cannot see, a backup before anything is removed.
// Whatever keeps an app from running ends on the AppService, as a condition and a
// Warning.
//
// What the children look like is decided in package workload, why they do not run in
// package diagnosis, whether a pod is healthy in package health. Checks run outside of
// every reconcile. A settled app costs no request but its checks.
package appservice
