package explain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// dataSource returns the snapshot or the claim that a claim without a volume is a copy of.
func (q *inquiry) dataSource() []reference {
	return sourceOf(q.object.(*corev1.PersistentVolumeClaim)) //nolint:forcetypeassert // the edge is for claims
}

func sourceOf(c *corev1.PersistentVolumeClaim) []reference {
	if c.Status.Phase == corev1.ClaimBound {
		return nil
	}
	const relation = ", from which it is created,"
	group := func(g *string) string {
		if g == nil {
			return ""
		}
		return *g
	}
	switch spec := c.Spec; {
	case spec.DataSourceRef != nil:
		namespace := c.Namespace
		if spec.DataSourceRef.Namespace != nil {
			namespace = *spec.DataSourceRef.Namespace
		}
		return []reference{newReference(schema.GroupKind{Group: group(spec.DataSourceRef.APIGroup), Kind: spec.DataSourceRef.Kind}, namespace, spec.DataSourceRef.Name, relation)}
	case spec.DataSource != nil:
		return []reference{newReference(schema.GroupKind{Group: group(spec.DataSource.APIGroup), Kind: spec.DataSource.Kind}, c.Namespace, spec.DataSource.Name, relation)}
	}
	return nil
}

// snapshotContent returns the content of a snapshot, which has the errors of the driver.
func (q *inquiry) snapshotContent() []reference {
	u := q.custom()
	name, _, _ := unstructured.NestedString(u.Object, "status", "boundVolumeSnapshotContentName")
	return []reference{newReference(schema.GroupKind{Group: volumeSnapshot.Group, Kind: "VolumeSnapshotContent"}, "", name, ", which is its content,")}
}

// metricsAPI matches the API in a message of a HorizontalPodAutoscaler that could not read metrics:
// k8s.io/metrics. All its versions are served by the same server.
var metricsAPI = regexp.MustCompile(`(?:\b(custom|external)[. ])?\bmetrics(?:\.k8s\.io| API)`)

// apiServicesOf returns the names of the APIServices of the metrics API that a message names.
func apiServicesOf(message string) []string {
	m := metricsAPI.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	group := "metrics.k8s.io"
	if m[1] != "" {
		group = m[1] + "." + group
	}
	return []string{"v1beta1." + group, "v1beta2." + group, "v1." + group}
}

// scaling returns what a HorizontalPodAutoscaler needs: the ScaledObject that controls it, the server of its
// metrics, and the pods that it scales.
func (q *inquiry) scaling() []reference {
	h := q.object.(*autoscalingv2.HorizontalPodAutoscaler) //nolint:forcetypeassert // the edge is for these
	if len(q.workload.Known) == 0 {
		return nil
	}
	var all []reference
	if owner := metav1.GetControllerOfNoCopy(h); owner != nil {
		all = append(all, newReference(kindOfOwner(owner), h.Namespace, owner.Name, ", which controls it,"))
	}
	for _, name := range apiServicesOf(q.problemText()) {
		all = append(all, newReference(apiService, "", name, ", which serves its metrics,"))
	}
	return append(all, q.scaleTarget(h)...)
}

func (q *inquiry) scaleTarget(h *autoscalingv2.HorizontalPodAutoscaler) []reference {
	ref := h.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	return []reference{newReference(schema.GroupKind{Group: gv.Group, Kind: ref.Kind}, h.Namespace, ref.Name, ", which it scales,")}
}

func kindOfOwner(owner *metav1.OwnerReference) schema.GroupKind {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return schema.GroupKind{}
	}
	return schema.GroupKind{Group: gv.Group, Kind: owner.Kind}
}

// servedBy returns the Service behind an APIService.
func (q *inquiry) servedBy() []reference {
	u := q.custom()
	name, _, _ := unstructured.NestedString(u.Object, "spec", "service", "name")
	namespace, _, _ := unstructured.NestedString(u.Object, "spec", "service", "namespace")
	if name == "" {
		return nil
	}
	return []reference{{kind: serviceKind, namespace: namespace, name: name, relation: ", which answers for it,", mustRun: true}}
}

// networkOfNode matches the message of a node, or of a pod on it, whose network plugin does not run.
var networkOfNode = regexp.MustCompile(`(?i)network plugin|\bcni\b|NetworkPluginNotReady`)

// agents returns the pods that set up the network of a node, and that do not run.
func (q *inquiry) agents() []reference {
	if !networkOfNode.MatchString(q.problemText()) {
		return nil
	}
	node := ""
	if q.object != nil && q.explanation.Kind == kindNode {
		node = q.name
	} else if i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return q.blaming != nil && p.Name == q.blaming.Object.Name }); i >= 0 {
		node = q.workload.Pods[i].Spec.NodeName
	}
	if node == "" {
		return nil
	}
	var all []reference
	live := &inquiry{ctx: q.ctx, Explainer: &Explainer{client: q.client, objects: q.client}}
	_, pods := live.podsOn(node)
	q.alsoUnread(live.explanation.NotChecked)
	for _, p := range pods {
		controller := metav1.GetControllerOf(p)
		if p.Spec.HostNetwork && !podIsReady(p) && controller != nil && controller.Kind == "DaemonSet" && len(all) < maxReferences {
			all = append(all, newReference(podKind, p.Namespace, p.Name, fmt.Sprintf(", which runs on node %q,", node)))
		}
	}
	return all
}

// nodeOf returns the node of a NodeClaim or of a Machine.
func (q *inquiry) nodeOf() []reference {
	u := q.custom()
	name, _, _ := unstructured.NestedString(u.Object, "status", "nodeName")
	if name == "" {
		name, _, _ = unstructured.NestedString(u.Object, "status", "nodeRef", "name")
	}
	if name == "" {
		return nil
	}
	return []reference{newReference(nodeKind, "", name, ", which it has become,")}
}

var noSpace = regexp.MustCompile(`(?i)no space left on device|\bENOSPC\b|disk is full|disk full`)

// full returns the claims of the pod whose log says that a volume is full. One of them may not get the size
// that it requests.
func (q *inquiry) full() []reference {
	if q.explanation.Log == nil || !slices.ContainsFunc(q.explanation.Log.whole, noSpace.MatchString) {
		return nil
	}
	p := q.loggedPod()
	if p == nil {
		return nil
	}
	var all []reference
	claims := diagnosis.ClaimsOf(p)
	for _, name := range claims[:min(len(claims), maxReferences)] {
		all = append(all, newReference(claimKind, q.namespace, name, ", which it mounts,"))
	}
	if len(claims) > 0 {
		q.explanation.Cause.add(fmt.Sprintf("its log says that a disk is full; it mounts %s", q.sizes(claims)), "free space there, or request more; if the path in the log is no mount, the disk of the node is full")
	}
	return all
}

// sizes lists claims of the namespace with their sizes, as far as they are known.
func (q *inquiry) sizes(claims []string) string {
	all := make([]string, len(claims))
	for i, name := range claims {
		all[i] = fmt.Sprintf("claim %q", name)
		for _, c := range q.workload.Claims {
			if size, known := c.Status.Capacity[corev1.ResourceStorage]; known && c.Name == name {
				all[i] = fmt.Sprintf("claim %q (%s)", name, size.String())
			}
		}
	}
	return strings.Join(all, ", ")
}

// nfsServer is how the diagnosis says that a node cannot reach the server of a volume.
var nfsServer = regexp.MustCompile(`the NFS server does not respond`)

// fileServers returns the Services that are the NFS servers of the pods' volumes.
func (q *inquiry) fileServers() []reference {
	if !nfsServer.MatchString(q.problemText()) {
		return nil
	}
	var servers []string
	for _, p := range q.workload.Pods {
		for _, v := range p.Spec.Volumes {
			if v.NFS != nil {
				servers = append(servers, v.NFS.Server)
			}
		}
	}
	for _, c := range q.workload.Claims {
		v := &corev1.PersistentVolume{}
		if err := q.objects.Get(q.ctx, client.ObjectKey{Name: c.Spec.VolumeName}, v); err != nil {
			q.unread("persistentvolumes", "get them", err)
		} else if v.Spec.NFS != nil {
			servers = append(servers, v.Spec.NFS.Server)
		}
	}
	var all []reference
	for _, server := range servers[:min(len(servers), maxReferences)] {
		if s := q.serviceAt(server); s != nil {
			all = append(all, reference{kind: serviceKind, namespace: s.Namespace, name: s.Name, relation: ", which is the server,", mustRun: true})
		}
	}
	return all
}

// scheduleLabel is on the Backups of a Schedule: velero.io/docs, pkg/apis/velero/v1/labels_annotations.go.
const scheduleLabel = "velero.io/schedule-name"

// repeated are types that create objects by a schedule. The last one shows how they are.
var repeated = map[schema.GroupKind]schema.GroupKind{
	backupSchedule:                       veleroBackup,
	cronWorkflow:                         {Group: cronWorkflow.Group, Kind: "Workflow"},
	{Group: "k8up.io", Kind: "Schedule"}: {Group: "k8up.io", Kind: "Backup"},
	{Group: "postgresql.cnpg.io", Kind: "ScheduledBackup"}:             {Group: "postgresql.cnpg.io", Kind: "Backup"},
	{Group: "sparkoperator.k8s.io", Kind: "ScheduledSparkApplication"}: {Group: "sparkoperator.k8s.io", Kind: "SparkApplication"},
}

// lastOf returns the latest object of a type that the target has created, or nil.
func (q *inquiry) lastOf(kind schema.GroupKind) []reference {
	var last client.Object
	for _, o := range q.listOf(kind) {
		ours := o.GetLabels()[scheduleLabel] == q.name || q.object != nil && metav1.IsControlledBy(o, q.object)
		if ours && (last == nil || o.GetCreationTimestamp().After(last.GetCreationTimestamp().Time)) {
			last = o
		}
	}
	if last == nil {
		return nil
	}
	return []reference{newReference(kind, q.namespace, last.GetName(), ", its last one,")}
}

// backupLocation returns where a Backup of Velero is kept.
func (q *inquiry) backupLocation() []reference {
	u := q.custom()
	name, _, _ := unstructured.NestedString(u.Object, "spec", "storageLocation")
	return []reference{newReference(backupStore, q.namespace, name, ", in which it is kept,")}
}

// machineReadyAfter is how long a new Machine usually takes at most: nodeStartupTimeout of a MachineHealthCheck.
const machineReadyAfter = 20 * time.Minute

// machines returns the Machines of a MachineDeployment that are being deleted or fail. Its own conditions are about those
// that stay: cluster-api.sigs.k8s.io.
func (q *inquiry) machines() []reference {
	var all []reference
	for _, o := range q.listOf(machine) {
		fails := o.GetDeletionTimestamp() != nil || slices.ContainsFunc(conditionsIn(contentOf(o)["status"], ""), func(c metav1.Condition) bool {
			return isBad(c) && q.clock.Now().Sub(c.LastTransitionTime.Time) > machineReadyAfter
		})
		if o.GetLabels()["cluster.x-k8s.io/deployment-name"] == q.name && fails && len(all) < maxReferences {
			all = append(all, newReference(machine, q.namespace, o.GetName(), ", which belongs to it,"))
		}
	}
	return all
}

// subscription is how the Operator Lifecycle Manager installs an operator: olm.operatorframework.io.
var subscription = schema.GroupKind{Group: "operators.coreos.com", Kind: "Subscription"}

// installed returns the version of an operator that a Subscription installs.
func (q *inquiry) installed() []reference {
	version := schema.GroupKind{Group: subscription.Group, Kind: "ClusterServiceVersion"}
	return []reference{newReference(version, q.namespace, statusText(q.custom(), "currentCSV"), ", which it installs,")}
}

// podGroup is what Volcano schedules: volcano.sh/docs.
var podGroup = schema.GroupKind{Group: "scheduling.volcano.sh", Kind: "PodGroup"}

// volcanoCapability adds a cause if a PodGroup requests more than its queue may ever have.
func (q *inquiry) volcanoCapability(u *unstructured.Unstructured) {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "queue")
	wanted, _, _ := unstructured.NestedStringMap(u.Object, "spec", "minResources")
	if u.GroupVersionKind().GroupKind() != podGroup || q.explanation.State == Running || name == "" {
		return
	}
	for _, o := range q.listIn("", schema.GroupKind{Group: podGroup.Group, Kind: "Queue"}) {
		capability, _, _ := unstructured.NestedStringMap(contentOf(o), "spec", "capability")
		for _, resource := range slices.Sorted(maps.Keys(capability)) {
			most, err := apiresource.ParseQuantity(capability[resource])
			requested, errRequested := apiresource.ParseQuantity(wanted[resource])
			if o.GetName() != name || err != nil || errRequested != nil || requested.Cmp(most) <= 0 {
				continue
			}
			q.explanation.State = Waiting
			q.workload.Known = append(q.workload.Known, diagnosis.Cause{
				Reason: "NotEnoughResources", Object: diagnosis.Object{Kind: podGroup.Kind, Name: u.GetName()},
				Message: fmt.Sprintf("it requests %s of %s at once, and its Queue %q has a capability of %s", wanted[resource], resource, name, capability[resource]),
				Advice:  "request less, or ask the cluster's administrator for a larger capability of the Queue",
			})
		}
	}
}

// volcanoQueue returns the queue of a PodGroup.
func (q *inquiry) volcanoQueue() []reference {
	name, _, _ := unstructured.NestedString(q.custom().Object, "spec", "queue")
	return []reference{{kind: schema.GroupKind{Group: podGroup.Group, Kind: "Queue"}, name: name, relation: ", in which it waits,", mustRun: true}}
}
