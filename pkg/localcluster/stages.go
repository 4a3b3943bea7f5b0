package localcluster

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// stageFiles are KWOK's Stages, with one liberty taken: a step's event has
// templates in it. KWOK would emit it in its own name, with fixed text and
// without saying which container it is about; so renderStages makes such a step
// into one that applies a whole Event, as a kubelet would write it.
//
//go:embed stages/*.yaml
var stageFiles embed.FS

// eventTemplate is that Event. It goes by variables that a Stage may set:
//
//	$container  which one it is about; none: the pod or node as a whole
//	$count      how often this has happened by now
//	$occasion   makes what would be a repetition an Event of its own
//
//go:embed stages/event.tmpl
var eventTemplate string

// letAnnotation, on a Stage, is a template that each of the Stage's templates
// begins with. It sets variables.
const letAnnotation = "bongsu.io/let"

// variables begin every template.
const variables = `{{ $now := Now | quote }}{{ $container := "" }}{{ $count := 1 }}{{ $occasion := "" }}` + "\n"

// renderStages returns all Stages as KWOK's configuration.
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

// The part of a Stage that is rendered; the rest is passed on as it is.
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
	let := variables + s.Metadata.Annotations[letAnnotation]
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

// applyEvent merges: where the Event exists already it is brought up to date,
// which is how a kubelet counts repetitions.
func applyEvent(let string, event map[string]any) map[string]any {
	eventType, reason, message := fmt.Sprint(event["type"]), fmt.Sprint(event["reason"]), fmt.Sprint(event["message"])
	// Events that say the same of the same container are one.
	id := sha256.Sum256([]byte(eventType + reason + message))
	text := strings.NewReplacer(
		"@LET@", let, "@ID@", hex.EncodeToString(id[:8]),
		"@TYPE@", eventType, "@REASON@", reason, "@MESSAGE@", message,
	).Replace(eventTemplate)
	return map[string]any{"type": "merge", "template": text}
}
