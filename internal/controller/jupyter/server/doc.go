// Package notebook asks a Jupyter server whether it is used, by the server's own
// REST API: /api/status, /api/kernels and /api/terminals.
//
// What cannot be told for certain is an error: an answer that is no answer of that
// API, a redirect, a clock that differs. The server is its user's and may answer
// anything, so no text of an answer is passed on. The token goes to the address that
// was given and nowhere else: it is in no error, and neither proxies nor redirects
// are followed.
//
// The package does not decide what is idle: see culling.
package server
