// Package servers tests the culling of notebooks with real servers: a Jupyter server of a
// Debian package, and code-server of an npm package. The servers run as processes of this
// machine, with no cluster. The operator's own client asks them, and the rules of package
// culling decide. Times are shorter than those that users can set. `make e2e-servers` installs
// the servers and runs the tests.
package servers
