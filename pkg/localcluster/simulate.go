package localcluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Simulate is the annotation that selects the behavior of a simulated node, pod or
// persistent volume claim. See the documentation of the package. It is not in the domain of
// an operator: users set it in pod templates, where the operator refuses its own keys.
const Simulate = "bongsu-local/simulate"

// Values of Simulate, with the objects that they apply to.
const (
	SimulateNone      = "none"       // pod, claim; on a node as a label
	SimulateNotReady  = "not-ready"  // node, pod
	SimulateCrash     = "crash"      // pod
	SimulateOOM       = "oom"        // pod
	SimulateImagePull = "image-pull" // pod
)

// instanceType is the label of all simulated nodes. The Stages set their capacity.
const instanceType = "m6i.xlarge"

var zones = []string{"local-a", "local-b", "local-c"}

// AddNode creates simulated nodes that do not exist yet. It does not wait until they are
// ready.
func (c *Cluster) AddNode(ctx context.Context, names ...string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	for _, name := range names {
		_, err := client.CoreV1().Nodes().Create(ctx, node(name), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("add node %s: %w", name, err)
		}
	}
	return nil
}

// releaseNodes deletes the leases of the nodes. KWOK has a new identity after each start.
// It would not manage the nodes before the old leases expire.
func (c *Cluster) releaseNodes(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	err = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("release the nodes: %w", err)
	}
	return nil
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			corev1.LabelHostname:           name,
			corev1.LabelOSStable:           "linux",
			corev1.LabelArchStable:         "amd64",
			corev1.LabelInstanceTypeStable: instanceType,
			corev1.LabelTopologyRegion:     "local",
			corev1.LabelTopologyZone:       zoneOf(name),
		},
	}}
}

// zoneOf assigns a name to a zone. The same name always gets the same zone.
func zoneOf(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return zones[h.Sum32()%uint32(len(zones))]
}

// ensureStorageClass creates the default class with simulated volumes. The provisioner of
// the controller manager would write to this machine.
func (c *Cluster) ensureStorageClass(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "simulated",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "simulated.bongsu.io",
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the default storage class: %w", err)
	}
	return nil
}

// stageFiles are KWOK's Stages with an extension: the event of a step may contain
// templates. KWOK's own Events have fixed texts and do not name a container. renderStages
// therefore replaces such steps by steps that apply an Event as a kubelet writes it.
//
//go:embed stages/*.yaml
var stageFiles embed.FS

// eventTemplate is the template of the Event. A Stage may set these variables:
//
//	$container  the container that the Event is about; default: the whole pod or node
//	$count      how often it has happened
//	$occasion   a value that distinguishes Events that otherwise are the same
//
//go:embed stages/event.tmpl
var eventTemplate string

// variablesAnnotation is the annotation of a Stage with a template that sets variables.
const variablesAnnotation = "bongsu.io/let"

// defaultVariables precede every template.
const defaultVariables = `{{ $now := Now | quote }}{{ $container := "" }}{{ $count := 1 }}{{ $occasion := "" }}` + "\n"

// renderStages returns all Stages as a configuration of KWOK.
func renderStages() ([]byte, error) {
	files, err := stageFiles.ReadDir("stages")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, file := range files {
		data, err := stageFiles.ReadFile("stages/" + file.Name())
		if err != nil {
			return nil, err
		}
		stage, err := renderStage(data)
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", file.Name(), err)
		}
		out.WriteString("---\n")
		out.Write(stage)
	}
	return out.Bytes(), nil
}

// stage is the part of a Stage that is rendered. The rest is copied.
type (
	stage struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   stageMetadata  `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}
	stageMetadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
)

func renderStage(data []byte) ([]byte, error) {
	var s stage
	if err := yaml.UnmarshalStrict(data, &s); err != nil {
		return nil, err
	}
	let := defaultVariables + s.Metadata.Annotations[variablesAnnotation]
	s.Metadata.Annotations = nil
	steps, _ := s.Spec["steps"].([]any)
	for i := range steps {
		step, _ := steps[i].(map[string]any)
		if event, ok := step["event"].(map[string]any); ok {
			steps[i] = map[string]any{"apply": applyEvent(let, event)}
		}
		if patch, ok := step["patch"].(map[string]any); ok {
			patch["template"] = let + fmt.Sprint(patch["template"])
		}
	}
	return yaml.Marshal(s)
}

// applyEvent returns a step that creates the Event, or updates it. A kubelet counts
// repetitions in the same way.
func applyEvent(let string, event map[string]any) map[string]any {
	eventType, reason, message := fmt.Sprint(event["type"]), fmt.Sprint(event["reason"]), fmt.Sprint(event["message"])
	// Events with the same text and container are the same Event.
	id := sha256.Sum256([]byte(eventType + reason + message))
	text := strings.NewReplacer(
		"@LET@", let, "@ID@", hex.EncodeToString(id[:8]),
		"@TYPE@", eventType, "@REASON@", reason, "@MESSAGE@", message,
	).Replace(eventTemplate)
	return map[string]any{"type": "merge", "template": text}
}
