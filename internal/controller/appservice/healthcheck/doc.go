// Package healthcheck makes the health checks of an app's pods: it asks a pod by HTTP,
// straight or through the API server's proxy, or has a command run in it.
//
// Everything that a check is made of is a tenant's: path, headers, command, and what
// the pod answers. So a check goes to the pod's address and nowhere else; names are
// not looked up, redirects not followed, proxies not used. What is read is bounded.
// Messages are one line of at most 512 bytes that tells what the pod answered, but
// neither headers nor arguments nor addresses.
//
// An HTTP check means what the kubelet means by it: 200 to 399 is healthy, the
// certificate is not verified, the Host header is honoured. It differs in that no
// redirect is followed, not even to the same pod, and in that headers are refused that
// belong to a connection.
//
// Straight to the pod, a check failed if the pod refused the connection or, once it
// was there, did not answer as it should. It could not be made if there was no
// connection: a network policy is in the way, perhaps.
//
// Through the API server, its own answers must be told from the app's. They are
// objects of kind Status, whose code is the answer's; an app that answers with one is
// free to say that it cannot be reached. What the API server cannot tell apart is not
// held against the app: a pod that refuses connections, and one that does not begin to
// answer in time, could not be checked. The headers of such a check arrive at the API
// server, together with the operator's credentials: those that have a meaning there
// are refused, and so is Host, by which a load balancer in front of it might hand the
// credentials to somebody else. The API server decodes the path and cleans it.
//
// The package does not decide what is healthy: see health.
package healthcheck
