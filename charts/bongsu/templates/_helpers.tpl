{{- define "bongsu.selector" -}}
app.kubernetes.io/name: bongsu
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of all objects. `bongsu uninstall` selects by part-of. */}}
{{- define "bongsu.labels" -}}
app.kubernetes.io/name: bongsu
app.kubernetes.io/part-of: bongsu
{{- end }}

{{- define "bongsu.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Names of the roles that the values do not choose, as a JSON list. */}}
{{- define "bongsu.unusedRoles" -}}
{{- $names := list }}
{{- $chosen := .Values.controllers }}
{{- range list "alarm" "alarm-secrets" "secretshare" "jupyter" "appservice" "appservice-exec" "appservice-proxy" }}
  {{- $extended := splitList "-" . | first }}
  {{- if not (has . $chosen) }}
    {{- $names = append $names (printf "bongsu-%s" .) }}
  {{- else if not (has $extended $chosen) }}
    {{- fail (printf "controllers: %s needs %s: add it, or remove %s" . $extended .) }}
  {{- end }}
{{- end }}
{{- if not (has "secretshare" .Values.controllers) }}{{ $names = append $names "bongsu-secretshare-secrets" }}{{ end }}
{{- $alarm := has "alarm" .Values.controllers }}
{{- if not $alarm }}{{ $names = append $names "bongsu-changes" }}{{ end }}
{{- if not (and $alarm .Values.alarms.changes.builtin) }}{{ $names = append $names "bongsu-changes-builtin" }}{{ end }}
{{- if not (and $alarm .Values.alarms.changes.configMaps) }}{{ $names = append $names "bongsu-changes-configmaps" }}{{ end }}
{{- toJson $names }}
{{- end }}

{{/*
Manifests of the kinds .kinds in the file .path of the chart .root, with labels and the
namespace of the release. Policies that confine the operator name its account and the
protected namespaces. Roles and bindings of features that are not chosen are omitted. So is the
binding for all Secrets, if rbac.yaml binds its role in some namespaces.
*/}}
{{- define "bongsu.manifests" -}}
{{- $root := .root }}
{{- $kinds := .kinds }}
{{- $unused := include "bongsu.unusedRoles" $root | fromJsonArray }}
{{- $operator := printf "'system:serviceaccount:%s:bongsu'" $root.Release.Namespace }}
{{- $protected := "[]" }}
{{- with $root.Values.protectedNamespaces }}{{ $protected = printf "['%s']" (join "', '" .) }}{{ end }}
{{- $text := $root.Files.Get .path | replace "'system:serviceaccount:bongsu-system:bongsu'" $operator | replace "['kube-system']" $protected }}
{{- range regexSplit "(?m)^---$" $text -1 }}
{{- with fromYaml . }}
{{- $role := and (hasPrefix "rbac." .apiVersion) (has .metadata.name $unused) }}
{{- $elsewhere := and $root.Values.secretShare.namespaces (eq .kind "ClusterRoleBinding") (eq .metadata.name "bongsu-secretshare-secrets") }}
{{- if and (has .kind $kinds) (not $role) (not $elsewhere) }}
  {{- $_ := set .metadata "labels" (merge (dict) (.metadata.labels | default dict) (include "bongsu.labels" $root | fromYaml)) }}
  {{- if not $root.Values.userRoles.aggregate }}
  {{- $_ := unset .metadata.labels "rbac.authorization.k8s.io/aggregate-to-edit" }}
  {{- $_ := unset .metadata.labels "rbac.authorization.k8s.io/aggregate-to-view" }}
  {{- end }}
  {{- if .metadata.namespace }}{{ $_ := set .metadata "namespace" $root.Release.Namespace }}{{ end }}
  {{- range .subjects }}{{ $_ := set . "namespace" $root.Release.Namespace }}{{ end }}
---
{{ toYaml . }}
{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The same, as the items of a List. */}}
{{- define "bongsu.items" -}}
{{- range regexSplit "(?m)^---$" (include "bongsu.manifests" .) -1 }}
{{- with trim . }}
- {{ indent 2 . | trim }}
{{- end }}
{{- end }}
{{- end }}
