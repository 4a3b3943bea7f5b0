{{- define "bongsu.selector" -}}
app.kubernetes.io/name: bongsu
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of all that the chart makes: part-of tells `bongsu uninstall` whose it is. */}}
{{- define "bongsu.labels" -}}
app.kubernetes.io/name: bongsu
app.kubernetes.io/part-of: bongsu
{{- end }}

{{- define "bongsu.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Names of roles that nobody needs, because their capability was not chosen: a JSON list. */}}
{{- define "bongsu.needless" -}}
{{- $names := list }}
{{- range list "alarm" "secretshare" "jupyter" "appservice" }}
  {{- if not (has . $.Values.controllers) }}{{ $names = append $names (printf "bongsu-%s" .) }}{{ end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/*
The manifests in the file .path of the chart .root, labelled, and in the namespace of
the release. Roles and bindings of capabilities that were not chosen are left out; so
are Namespace and ServiceAccount, which have templates of their own.
*/}}
{{- define "bongsu.manifests" -}}
{{- $root := .root }}
{{- $needless := include "bongsu.needless" $root | fromJsonArray }}
{{- range regexSplit "(?m)^---$" ($root.Files.Get .path) -1 }}
{{- with fromYaml . }}
{{- $role := and (hasPrefix "rbac." .apiVersion) (has .metadata.name $needless) }}
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
