// Command local runs the operator on a control plane on this machine. The operator has the
// permissions of config/rbac/role.yaml. Nodes and pods are simulated.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Files of this command, and the name and namespace of the operator.
const (
	dataDir    = "bin/local"
	kubeconfig = "bin/local/operator.kubeconfig"
	binary     = "bin/manager"
	name       = "controller-manager"
	namespace  = "default"
)

func main() {
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if err := build(ctx); err != nil {
		return err
	}
	progress := func(line string) { fmt.Println(line) }
	assets, err := localcluster.Install(ctx, progress)
	if err != nil {
		return err
	}
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		Dir: dataDir, Assets: assets, Progress: progress,
		Components: localcluster.Everything(), Nodes: 1, UnsafeNoFsync: true,
	})
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Stop(context.Background()) }()
	if err := prepare(ctx, cluster); err != nil {
		return err
	}
	fmt.Printf("\nIn another terminal:\n  export KUBECONFIG=%s PATH=\"$PATH:%s\"\n", cluster.Kubeconfig(), assets)
	fmt.Print("  kubectl apply -k config/samples\n\n")
	if _, err := os.Stat(filepath.Join("config", "webhook")); err == nil {
		fmt.Print("Webhooks do not run here. Test them with go test ./...\n\n")
	}
	return errors.Join(operate(ctx), cluster.Stop(context.Background()))
}

// prepare installs the CustomResourceDefinitions, and grants the operator the generated role.
func prepare(ctx context.Context, cluster *localcluster.Cluster) error {
	crds := envtest.CRDInstallOptions{Paths: []string{filepath.Join("config", "crd", "bases")}}
	if _, err := envtest.InstallCRDs(cluster.RESTConfig(), crds); err != nil {
		return err
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join("config", "rbac", "role.yaml"))
	if err != nil {
		return err
	}
	wanted := rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(manifest, &wanted); err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, object := range []client.Object{role, account, binding} {
		_, err := controllerutil.CreateOrUpdate(ctx, c, object, func() error {
			role.Rules = wanted.Rules
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
			binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return cluster.WriteServiceAccountKubeconfig(ctx, namespace, name, kubeconfig)
}

// build compiles the operator.
func build(ctx context.Context) error {
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// operate runs the operator until ctx ends.
func operate(ctx context.Context) error {
	// By default, no port can be in use by another operator.
	args := append([]string{"--kubeconfig", kubeconfig, "--health-probe-bind-address=0"}, os.Args[1:]...)
	operator := exec.Command(binary, args...)
	operator.Env = append(os.Environ(), "ENABLE_WEBHOOKS=false") // they need certificates
	operator.Stdout, operator.Stderr = os.Stdout, os.Stderr
	if err := localcluster.StartChild(operator); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = operator.Process.Signal(os.Interrupt) })
	defer stop()
	if err := operator.Wait(); ctx.Err() == nil {
		return fmt.Errorf("the operator ended: %w", err)
	}
	return nil
}
