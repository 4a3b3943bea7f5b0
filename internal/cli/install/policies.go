package install

import (
	"bytes"
	"context"
	_ "embed"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/config"
)

// probe holds a policy with its binding, and an object that it refuses.
//
//go:embed probe.yaml
var probe []byte

// awaitPolicies returns when the API server enforces the policies applied so far.
//
// It does not say so anywhere. But it takes all policies that it knows into force
// at once, and hears of them in the order of their creation: so when it enforces
// one that was created after the others, it enforces those too.
func awaitPolicies(ctx context.Context, c client.Client) (err error) {
	objects, err := config.Decode(bytes.NewReader(probe))
	if err != nil {
		return err
	}
	last := len(objects) - 1
	policy, refused := objects[:last], objects[last]
	defer func() {
		for _, o := range policy {
			err = errors.Join(err, Remove(context.WithoutCancel(ctx), c, o))
		}
	}()
	if err := Apply(ctx, c, policy...); err != nil {
		return err
	}
	return poll(ctx, "the admission policies to be enforced", func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, refused.DeepCopy(), client.DryRunAll)
		if refusedByPolicy(err) {
			return true, nil
		}
		return false, err
	})
}
