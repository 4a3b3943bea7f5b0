package enrich_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A tenant writes Events, labels, owner references and names. A cause may contain only facts of its namespace,
// and of the nodes of its pods.
func TestHostileEventsRevealNothingOfOtherNamespaces(t *testing.T) {
	const fact = "foreign-fact"
	s, own := newFixture(t, nil), newFixture(t, nil)
	claimed := []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	create := func(s *fixture, name string, owners ...metav1.OwnerReference) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"app": "victim"}, OwnerReferences: owners},
			Spec:       corev1.PodSpec{NodeName: "node-0", Volumes: claimed, Containers: []corev1.Container{{Name: "app", Image: "a"}}},
		}
		s.create(t, pod)
		return pod
	}
	for _, f := range []*fixture{s, own} {
		f.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "default"}})
	}
	victim := create(s, "victim")
	victim.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "` + fact + `" not found`},
	}}}
	if err := s.cluster.Client.Status().Update(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	mine := create(own, "mine", metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: victim.Name, UID: victim.UID})
	reasons := []string{"FailedAttachVolume", "FailedMount", "FailedScheduling", "BackOff", "Failed", "FailedCreate"}
	texts := []string{
		`Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) %s`,
		`MountVolume.SetUp failed for volume "v" : secret "%s" not found`,
		`persistentvolumeclaim "%s" not found`, `failed calling webhook "%s": no endpoints available for service "%[1]s"`,
		`pods "x" is forbidden: exceeded quota: %s, requested: pods=1, used: pods=1, limited: pods=1`,
	}
	names := []string{
		"victim", s.namespace + "/victim", "../" + s.namespace + "/pods/victim", "victim, mine", "victim." + s.namespace,
		"victim%00", "victim\n" + s.namespace, string(victim.UID),
	}
	const seeds = 200
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 0))
		e := own.warning(mine, "Warning", reasons[r.IntN(len(reasons))])
		e.Note = fmt.Sprintf(texts[r.IntN(len(texts))], names[r.IntN(len(names))])
		if got := own.Context(t.Context(), e); strings.Contains(fmt.Sprint(got), fact) {
			t.Fatalf("seed %d: %s: %+v", seed, e.Note, got)
		}
	}
}
