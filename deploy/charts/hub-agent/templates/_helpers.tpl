{{- define "hub-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name if it says what this is, and both names otherwise. */}}
{{- define "hub-agent.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 60 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- $both | trunc 60 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hub-agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hub-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hub-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "hub-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "hub-agent.serviceAccount" -}}
{{ include "hub-agent.fullname" . }}-sa
{{- end -}}

{{/* Values that cannot be meant together. */}}
{{- define "hub-agent.check" -}}
{{- if .Values.useCertManager -}}
{{- if not .Values.enableWorkload -}}
{{- fail "ERROR: useCertManager requires enableWorkload=true (the pods of cert-manager run on the hub)" -}}
{{- end -}}
{{- if not .Values.enableWebhook -}}
{{- fail "ERROR: useCertManager requires enableWebhook=true (the certificate is for the webhooks)" -}}
{{- end -}}
{{- if not .Values.webhookCertSecretName -}}
{{- fail "ERROR: useCertManager requires webhookCertSecretName (the Secret in which cert-manager keeps the certificate)" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.enableWebhook (not .Values.webhookServiceName) -}}
{{- fail "ERROR: enableWebhook requires webhookServiceName" -}}
{{- end -}}
{{- if and .Values.console.enabled (not .Values.console.hosts) -}}
{{- fail "ERROR: console.enabled requires console.hosts (the names under which people open it)" -}}
{{- end -}}
{{- with .Values.admissionPolicyManagerConfigName -}}
{{- if not (hasKey $.Values.additionalConfigData .) -}}
{{- fail (printf "ERROR: admissionPolicyManagerConfigName names %q, which additionalConfigData does not have" .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.skippedPropagatingAPIs .Values.allowedPropagatingAPIs -}}
{{- fail "ERROR: at most one of skippedPropagatingAPIs and allowedPropagatingAPIs may be set" -}}
{{- end -}}
{{- end -}}
