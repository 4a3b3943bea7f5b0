package main

import (
	"bytes"
	_ "embed"
	"errors"
	"reflect"
	"strings"
	"text/template"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

//go:embed receivers.yaml.tmpl
var receiverPolicy string

// writeReceiverPolicies writes the admission policies of both kinds of receivers.
func writeReceiverPolicies() error {
	return errors.Join(
		writeReceiverPolicy("alarmreceivers", func(string) string { return "request.namespace" }),
		writeReceiverPolicy("clusteralarmreceivers", func(field string) string { return valueOf(field, "namespace") }),
	)
}

// writeReceiverPolicy writes the policy of a resource. namespace returns the CEL expression for
// the namespace of the Secret that a field names.
func writeReceiverPolicy(resource string, namespace func(field string) string) error {
	policy, err := template.New("").Funcs(template.FuncMap{"namespace": namespace, "value": valueOf}).Parse(receiverPolicy)
	if err != nil {
		return err
	}
	fields := secretFields(reflect.TypeFor[v1alpha1.AlarmReceiverSpec](), "spec")
	var text bytes.Buffer
	err = policy.Execute(&text, map[string]any{"Resource": resource, "Fields": fields, "Most": mostOfOneType(fields)})
	return errors.Join(err, write("admission/"+resource+".yaml", text.Bytes()))
}

// secretFields returns the paths of the fields of a type that name a Secret.
func secretFields(t reflect.Type, path string) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[v1alpha1.SecretReference]() {
		return []string{path}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var fields []string
	for field := range t.Fields() {
		inner := path
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			inner += "." + name
		}
		fields = append(fields, secretFields(field.Type, inner)...)
	}
	return fields
}

// mostOfOneType returns how many Secrets a receiver can name: it has one type.
func mostOfOneType(fields []string) int {
	most, count := 0, map[string]int{}
	for _, field := range fields {
		receiverType := strings.Split(field, ".")[1]
		count[receiverType]++
		most = max(most, count[receiverType])
	}
	return most
}

// valueOf returns the CEL expression for a value of the Secret that a field names. It is empty if
// the receiver does not have the field.
func valueOf(field, value string) string {
	return "string(object." + strings.ReplaceAll(field, ".", ".?") + "." + value + ".orValue(''))"
}
