package localcluster

import (
	"slices"
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

func TestEnvironmentOfAComponent(t *testing.T) {
	for name, tc := range map[string]struct {
		component Component
		config    Config
		want      []string
	}{
		"the default":               {APIServer, Config{}, nil},
		"less garbage collection":   {APIServer, Config{GCPercent: 200}, []string{"GOGC=200"}},
		"commands of pods":          {Kwok, Config{ExecPath: "/opt/bin"}, []string{"PATH=/opt/bin"}},
		"commands are only of KWOK": {Etcd, Config{ExecPath: "/opt/bin"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			const dir = layout("/data/cluster")
			c := &Cluster{dir: dir, config: tc.config}
			want := append(environment(dir), tc.want...)
			if got := c.environment(tc.component); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
