{{- define "bongsu.pod" -}}
serviceAccountName: bongsu
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
containers:
- name: manager
  image: {{ include "bongsu.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: {{- include "bongsu.args" . | nindent 2 }}
  {{- with .Values.extraEnv }}
  env: {{- toYaml . | nindent 2 }}
  {{- end }}
  ports:
  - {name: health, containerPort: {{ .Values.health.port }}}
  {{- if .Values.metrics.enabled }}
  - {name: metrics, containerPort: {{ .Values.metrics.port }}}
  {{- end }}
  # The operator answers after it has opened the outbox, which can be large.
  startupProbe:
    httpGet: {path: /healthz, port: health}
    periodSeconds: 2
    failureThreshold: 60
  livenessProbe:
    httpGet: {path: /healthz, port: health}
    periodSeconds: 20
    timeoutSeconds: 5
  readinessProbe:
    httpGet: {path: /readyz, port: health}
    periodSeconds: 5
    timeoutSeconds: 5
  resources: {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
  volumeMounts:
  - {name: data, mountPath: /var/lib/bongsu}
{{- if not .Values.persistence.enabled }}
volumes:
- name: data
  emptyDir: {sizeLimit: {{ .Values.persistence.size }}}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- with .Values.topologySpreadConstraints }}
{{ toYaml . }}
{{- else }}
- topologyKey: kubernetes.io/hostname
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "bongsu.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "bongsu.args" -}}
- --leader-elect
- --namespace={{ .Release.Namespace }}
- {{ printf "--protected-namespaces=%s" (join "," .Values.protectedNamespaces) | quote }}
- --data-dir=/var/lib/bongsu
- --health-probe-bind-address=:{{ .Values.health.port }}
{{- if .Values.metrics.enabled }}
- --metrics-bind-address=:{{ .Values.metrics.port }}
- --metrics-secure={{ .Values.metrics.secure }}
{{- end }}
- --controllers={{ join "," .Values.controllers }}
{{- with .Values.clusterName }}
- {{ printf "--cluster-name=%s" . | quote }}
{{- end }}
{{- with .Values.alarms.allowedReceiverAddresses }}
- {{ printf "--allowed-receiver-addresses=%s" (join "," .) | quote }}
{{- end }}
{{- with .Values.alarms.deniedReceiverAddresses }}
- {{ printf "--denied-receiver-addresses=%s" (join "," .) | quote }}
{{- end }}
{{- with .Values.alarms.allowedReceiverHosts }}
- {{ printf "--allowed-receiver-hosts=%s" (join "," .) | quote }}
{{- end }}
- --delivery-max-age={{ .Values.alarms.deliveryMaxAge }}
{{- with .Values.alarms.heartbeatInterval }}
- --heartbeat-interval={{ . }}
{{- end }}
{{- with .Values.alarms.smtpHelloName }}
- --smtp-hello-name={{ . }}
{{- end }}
{{- with .Values.secretShare.namespaces }}
- {{ printf "--share-namespaces=%s" (join "," .) | quote }}
{{- end }}
- --default-share={{ .Values.secretShare.defaultRule }}
- --outbox-max-bytes={{ .Values.alarms.outboxMaxSize }}
- {{ printf "--jupyter-image=%s" .Values.jupyter.image | quote }}
- {{ printf "--appservice-image=%s" .Values.appService.image | quote }}
- --log-format={{ .Values.log.format }}
{{- with int .Values.log.verbosity }}
- --verbose={{ . }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
