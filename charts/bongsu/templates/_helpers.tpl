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

{{/* Names of the roles of features that are not chosen, as a JSON list. */}}
{{- define "bongsu.unusedRoles" -}}
{{- $names := list }}
{{- range list "alarm" "secretshare" "jupyter" "appservice" }}
  {{- if not (has . $.Values.controllers) }}{{ $names = append $names (printf "bongsu-%s" .) }}{{ end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/*
Manifests in the file .path of the chart .root, with labels and the namespace of the
release. Roles and bindings of features that are not chosen are omitted. So are Namespace
and ServiceAccount, which have their own templates.
*/}}
{{- define "bongsu.manifests" -}}
{{- $root := .root }}
{{- $unused := include "bongsu.unusedRoles" $root | fromJsonArray }}
{{- range regexSplit "(?m)^---$" ($root.Files.Get .path) -1 }}
{{- with fromYaml . }}
{{- $role := and (hasPrefix "rbac." .apiVersion) (has .metadata.name $unused) }}
{{- if not (or $role (has .kind (list "Namespace" "ServiceAccount"))) }}
  {{- $_ := set .metadata "labels" (merge (dict) (.metadata.labels | default dict) (include "bongsu.labels" $root | fromYaml)) }}
  {{- if .metadata.namespace }}{{ $_ := set .metadata "namespace" $root.Release.Namespace }}{{ end }}
  {{- range .subjects }}{{ $_ := set . "namespace" $root.Release.Namespace }}{{ end }}
---
{{ toYaml . }}
{{ end }}
{{- end }}
{{- end }}
{{- end }}
