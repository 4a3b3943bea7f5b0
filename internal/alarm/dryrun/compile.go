package dryrun

import (
	"errors"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	controlleralarm "github.com/bongsu-io/bongsu/internal/controller/alarm"
)

// Alarm is a Manifest that was compiled.
type Alarm struct {
	Manifest
	compiled *match.Alarm
}

// ID names the alarm.
func (a *Alarm) ID() alarm.ID { return a.compiled.ID }

// Place puts the Alarms that name no namespace into one, and says which of them is in
// another than must be, if one must.
func Place(manifests []Manifest, namespace string, must bool) error {
	for _, m := range manifests {
		if m.Kind != alarm.KindAlarm {
			continue
		}
		switch own := m.Object.GetNamespace(); {
		case own == "":
			m.Object.SetNamespace(namespace)
		case must && own != namespace:
			return fmt.Errorf("Alarm %s is of namespace %s: leave --namespace %s out, or metadata.namespace", m.Object.GetName(), own, namespace)
		}
	}
	return nil
}

// Compile compiles alarms as the operator does, and says of all that are invalid where
// they are. No cluster is needed.
//
// They match what happened before, and also if they are suspended: that is what is to be
// found out.
func Compile(manifests []Manifest) ([]*Alarm, error) {
	compiler, err := match.NewCompiler()
	if err != nil {
		return nil, err
	}
	alarms := make([]*Alarm, 0, len(manifests))
	var errs []error
	for _, m := range manifests {
		def := controlleralarm.Definition(m.Kind, m.Object, []string{"rehearsed"})
		def.CreatedAt, def.Spec.Suspend = time.Time{}, false
		compiled, err := compiler.Compile(def)
		if invalid, ok := errors.AsType[*match.CompileError](err); ok {
			err = errors.New(Point(invalid))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", m.Kind, m.Object.GetName(), err))
			continue
		}
		alarms = append(alarms, &Alarm{Manifest: m, compiled: compiled})
	}
	return alarms, errors.Join(errs...)
}
