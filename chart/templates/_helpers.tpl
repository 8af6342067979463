{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "berth.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Where the Secret of cert-manager, or the user's own, is mounted. */}}
{{- define "berth.certDir" -}}/etc/berth/webhook{{- end }}

{{/* Where the authority of the hooks' clients is mounted. */}}
{{- define "berth.clientCaDir" -}}/etc/berth/client-ca{{- end }}

{{/* Where the authority of those who read metrics is mounted. */}}
{{- define "berth.metricsClientCaDir" -}}/etc/berth/metrics-client-ca{{- end }}

{{/* Not empty when metrics are served over TLS, to clients of an authority alone. */}}
{{- define "berth.metricsClients" -}}
{{- if and .Values.metrics.enabled .Values.metrics.clientCaSecret }}yes{{ end -}}
{{- end }}

{{/* Not empty when anything is served over TLS. */}}
{{- define "berth.tls" -}}
{{- if or .Values.webhook.enabled (include "berth.hooks" .) (include "berth.metricsClients" .) }}yes{{ end -}}
{{- end }}

{{/* Not empty when a room runs: (list $ "vip"). */}}
{{- define "berth.runs" -}}
{{- $chosen := (first .).Values.controllers }}
{{- if or (empty $chosen) (has (last .) $chosen) }}yes{{ end -}}
{{- end }}

{{/* Not empty when the hooks of Cluster API are served. */}}
{{- define "berth.hooks" -}}
{{- if and (include "berth.runs" (list . "vip")) .Values.vip.enableRuntimeExtension }}yes{{ end -}}
{{- end }}

{{/* The Secret that holds certificate and authority, whoever fills it. */}}
{{- define "berth.certSecret" -}}
{{- if .Values.certificates.secretName }}{{ .Values.certificates.secretName }}
{{- else if .Values.certificates.certManager.enabled }}berth-webhook-certificate
{{- else }}berth-webhook-certs
{{- end -}}
{{- end }}

{{/* Not empty when that Secret is mounted instead of being Berth's own. */}}
{{- define "berth.mountedCert" -}}
{{- $foreign := or .Values.certificates.certManager.enabled .Values.certificates.secretName }}
{{- if and $foreign (include "berth.tls" .) }}yes{{ end -}}
{{- end }}

{{/* Labels and annotations of what takes the registration back; a weight may follow. */}}
{{- define "berth.unregister" -}}
labels:
  app.kubernetes.io/name: berth-unregister
  app.kubernetes.io/instance: {{ .Release.Name }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Not empty when the definition in this file of the chart is installed: (list $ "files/crds/x.yaml"). */}}
{{- define "berth.installs" -}}
{{- $crds := (first .).Values.crds }}
{{- $aws := hasPrefix "files/crds/awsmachine" (last .) }}
{{- $metal3 := hasPrefix "files/crds/metal3" (last .) }}
{{- if and $crds.install (or $crds.awsMachines (not $aws)) (or $crds.metal3 (not $metal3)) }}yes{{ end -}}
{{- end }}
