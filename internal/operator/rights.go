package operator

import (
	"errors"

	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/bongsu-io/bongsu/internal/operator/feature"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

// addRights has the rights that the chosen capabilities need checked, in every replica.
func (a *App) addRights(c Config, chosen []feature.Feature) error {
	needed, err := permissions.Needed(c.Options.Namespace, chosen)
	if err != nil {
		return err
	}
	authorization, err := authorizationv1client.NewForConfigAndClient(c.REST, a.manager.GetHTTPClient())
	if err != nil {
		return err
	}
	checker := permissions.NewChecker(authorization.SelfSubjectAccessReviews(), needed, realClock, c.Log.WithName("rights"))
	return errors.Join(
		c.Metrics.Register(checker),
		a.manager.AddReadyzCheck("rights", checker.Healthy),
		a.manager.Add(besideCaches{checker, a.manager.GetCache()}),
	)
}

// besideCaches is started together with the manager's caches, because it says which
// one it needs. Other Runnables wait until the caches are filled, which never happens
// while a right to list is missing: what tells of that must not wait for it.
type besideCaches struct {
	*permissions.Checker
	cache cache.Cache
}

// GetCache is how the manager knows what belongs to its caches.
func (b besideCaches) GetCache() cache.Cache { return b.cache }
