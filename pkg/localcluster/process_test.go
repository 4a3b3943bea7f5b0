package localcluster

import (
	"testing"
)

func TestIsComponentOf(t *testing.T) {
	const dir = layout("/data/cluster")
	for name, tc := range map[string]struct {
		args []string
		want bool
	}{
		"component of the cluster":           {[]string{"/opt/k8s/etcd", "--data-dir=/data/cluster/etcd"}, true},
		"another component":                  {[]string{"/opt/k8s/kwok", "--config=/data/cluster/stages.yaml"}, false},
		"component of another cluster":       {[]string{"/opt/k8s/etcd", "--data-dir=/data/cluster-2/etcd"}, false},
		"a program that names the directory": {[]string{"bongsu", "local", "--dir", "/data/cluster/"}, false},
		"no process":                         {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isComponentOf(tc.args, "etcd", dir); got != tc.want {
				t.Errorf("isOurs(%q) = %v, want %v", tc.args, got, tc.want)
			}
		})
	}
}
