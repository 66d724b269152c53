{{- define "member-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name if it says what this is, and both names otherwise. */}}
{{- define "member-agent.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 60 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- $both | trunc 60 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "member-agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "member-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "member-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "member-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "member-agent.serviceAccount" -}}
{{ include "member-agent.fullname" . }}-sa
{{- end -}}

{{/* Whether a sidecar fetches the token. */}}
{{- define "member-agent.sidecar" -}}
{{- if not (or .Values.useCAAuth .Values.useKubeconfig) }}true{{ end -}}
{{- end -}}

{{/* Values that cannot be meant together, and placeholders that were left in place. */}}
{{- define "member-agent.check" -}}
{{- if and .Values.useCAAuth .Values.useKubeconfig -}}
{{- fail "ERROR: at most one of useCAAuth and useKubeconfig may be set" -}}
{{- end -}}
{{- if not .Values.config.memberClusterName -}}
{{- fail "ERROR: config.memberClusterName must be the name of the MemberCluster on the hub" -}}
{{- end -}}
{{- if .Values.useKubeconfig -}}
{{- if not .Values.config.hubKubeconfigSecretName -}}
{{- fail "ERROR: useKubeconfig requires config.hubKubeconfigSecretName" -}}
{{- end -}}
{{- else -}}
{{- if or (not .Values.config.hubURL) (contains "<" .Values.config.hubURL) -}}
{{- fail "ERROR: config.hubURL must be the URL of the hub's API server, as https://hub.example.com:6443" -}}
{{- end -}}
{{- if and (contains "<" .Values.config.hubCA) (not .Values.tlsClientInsecure) (not (and .Values.useCAAuth .Values.config.CABundle)) -}}
{{- fail "ERROR: config.hubCA must be the certificate authority of the hub in base64, or empty for the authorities that everybody trusts" -}}
{{- end -}}
{{- if .Values.useCAAuth -}}
{{- if not (or .Values.config.identitySecretName (and .Values.config.identityKey .Values.config.identityCert)) -}}
{{- fail "ERROR: useCAAuth requires config.identitySecretName, or config.identityKey and config.identityCert" -}}
{{- end -}}
{{- else if not (has .Values.config.provider (list "secret" "azure")) -}}
{{- fail "ERROR: config.provider must be secret or azure" -}}
{{- else if and (eq .Values.config.provider "azure") (not .Values.refreshtoken.repository) -}}
{{- fail "ERROR: config.provider azure needs KubeFleet's refresh-token image in refreshtoken.repository; Flagship's sidecar reads tokens from a Secret" -}}
{{- end -}}
{{- end -}}
{{- end -}}
