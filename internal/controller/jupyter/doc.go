// Package jupyter makes notebook servers of Jupyters: a StatefulSet of one, a
// Service, a claim, a token, an Ingress. Whatever keeps a notebook from running ends
// on the Jupyter, as a condition and a Warning, for its owner cannot read the
// operator's log.
//
// What the children look like is decided in package workload, why they do not run in
// package diagnosis. A settled notebook costs no request.
package jupyter
