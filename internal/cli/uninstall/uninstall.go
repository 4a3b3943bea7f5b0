// Package uninstall takes the operator out of a cluster. By default what users have made
// stays: objects, copies of Secrets, notebooks, apps; but nothing of it is left in a
// state that only the operator could end, such as a finalizer. With Config.DeleteData all
// of that goes first, while the operator is at work: it backs apps up and removes copies.
//
// It deletes nothing that is not ours, whatever its name.
package uninstall

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/install"
)

// Config says what to remove.
type Config struct {
	// REST says from which cluster, and as whom: an administrator.
	REST *rest.Config
	// Namespace of the operator.
	Namespace string
	// Manifests are all that an installation may be made of, whatever its values were.
	Manifests []*unstructured.Unstructured
	// DeleteData removes what users have made, the kinds, and the namespace if it was
	// made by the installation.
	DeleteData bool
	// DryRun changes nothing, and tells what would be removed.
	DryRun bool
	// Progress is told what is done, a line at a time.
	Progress func(line string)
}

type removal struct {
	Config
	client client.Client
}

// Run removes the operator. Where it ends early, a second time goes on. It waits as
// long as ctx lasts.
func Run(ctx context.Context, c Config) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	cl, err := client.New(c.REST, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	r := &removal{Config: c, client: cl}
	kinds, err := r.kinds(ctx)
	if err != nil {
		return err
	}
	if c.DeleteData {
		if err := r.deleteData(ctx, kinds); err != nil {
			return err
		}
	}
	if err := r.stopOperator(ctx); err != nil {
		return err
	}
	left, err := r.release(ctx, kinds)
	if err != nil {
		return err
	}
	if err := errors.Join(r.removeRest(ctx), r.removeOwn(ctx)); err != nil {
		return err
	}
	if c.DeleteData {
		return errors.Join(r.deleteKinds(ctx, kinds), r.deleteNamespace(ctx))
	}
	r.tellWhatStays(left)
	return nil
}

// remove deletes an object, or tells that it would be.
func (r *removal) remove(ctx context.Context, o client.Object) error {
	if r.DryRun {
		r.Progress("would remove " + install.Describe(o))
		return nil
	}
	if err := install.Remove(ctx, r.client, o); err != nil {
		return err
	}
	r.Progress("removed " + install.Describe(o))
	return nil
}

func (r *removal) tellWhatStays(left int) {
	verb := "stay"
	if r.DryRun {
		verb = "would stay"
	}
	r.Progress(fmt.Sprintf("the kinds, their objects (%d) and all that was made of them %s, and so does namespace %s", left, verb, r.Namespace))
}
