// Package servers tests with real servers, which run as processes of this machine, with no
// cluster. Times are shorter than those that users can set. `make e2e-servers` installs the
// servers and runs the tests.
//
// The culling of notebooks is tested with a Jupyter server of a Debian package, and code-server
// of an npm package. The operator's own client asks them, and the rules of package culling
// decide. Alarms are tested with Alertmanager, built from its Go module. The scripts of
// samples/memcached-operator are tested with memcached of a Debian package.
package servers
