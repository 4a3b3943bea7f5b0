package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// pageSize is how many objects are read at a time, and maxPages how often.
	pageSize = 500
	maxPages = 20
	// maxClaims is how many claims of a pod are read.
	maxClaims = 32
)

// target reads the object that is asked about. One that may not be read is
// explained from the rest: it returns false then.
func (q *inquiry) target(o client.Object) (bool, error) {
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: q.name}, o)
	switch {
	case apierrors.IsForbidden(err):
		q.unread(q.resource.String()+" "+q.name, "get it", err)
		return false, nil
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("there is nothing to explain in namespace %s: %w", q.namespace, err)
	}
	return err == nil, err
}

// unread notes what could not be read, and names the right that is missing.
func (q *inquiry) unread(what, right string, err error) {
	why := "you may not " + right
	if !apierrors.IsForbidden(err) {
		why = plaintext.Line(err.Error())
	}
	u := Unread{What: what, Why: why}
	if !slices.Contains(q.explanation.Unread, u) {
		q.explanation.Unread = append(q.explanation.Unread, u)
	}
}

// list reads a list of the namespace page by page, and says whether it could.
func (q *inquiry) list(what string, list client.ObjectList, page func(), opts ...client.ListOption) bool {
	opts = append(opts, client.Limit(pageSize))
	next := ""
	for range maxPages {
		if err := q.objects.List(q.ctx, list, append(opts, client.Continue(next))...); err != nil {
			q.unread(what, "list them", err)
			return false
		}
		page()
		if next = list.GetContinue(); next == "" {
			return true
		}
	}
	q.unread(what, "", fmt.Errorf("there are more than %d", pageSize*maxPages))
	return true
}

// readPods reads the pods that one of the owners controls.
func (q *inquiry) readPods(selector *metav1.LabelSelector, owners ...client.Object) {
	labels, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		q.unread("pods", "", err)
		return
	}
	var list corev1.PodList
	q.list("pods", &list, func() {
		for i := range list.Items {
			if p := &list.Items[i]; ownedBy(p, owners) {
				q.workload.Pods = append(q.workload.Pods, p.DeepCopy())
			}
		}
	}, client.InNamespace(q.namespace), client.MatchingLabelsSelector{Selector: labels})
}

func ownedBy(o metav1.Object, owners []client.Object) bool {
	return slices.ContainsFunc(owners, func(owner client.Object) bool { return metav1.IsControlledBy(o, owner) })
}

// readClaims reads the claims that the pods mount which are not ready.
func (q *inquiry) readClaims() {
	var names []string
	for _, p := range q.workload.Pods {
		for _, name := range diagnosis.ClaimsOf(p) {
			if p.DeletionTimestamp == nil && !slices.Contains(names, name) && len(names) < maxClaims {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		claim := &corev1.PersistentVolumeClaim{}
		err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err):
			q.workload.Known = append(q.workload.Known, diagnosis.ClaimNotFound(name))
		case err != nil:
			q.unread("persistentvolumeclaims", "get them", err)
		default:
			q.workload.Claims = append(q.workload.Claims, claim)
		}
	}
}

func (q *inquiry) readQuotas() {
	var list corev1.ResourceQuotaList
	q.list("resourcequotas", &list, func() {
		for i := range list.Items {
			q.workload.Quotas = append(q.workload.Quotas, list.Items[i].DeepCopy())
		}
	}, client.InNamespace(q.namespace))
}

// readNodes sums up what the nodes have to offer.
func (q *inquiry) readNodes() {
	var list corev1.NodeList
	var nodes []corev1.Node
	if q.list("nodes", &list, func() { nodes = append(nodes, list.DeepCopy().Items...) }) {
		q.workload.Nodes = diagnosis.SummarizeNodes(nodes)
	}
}
