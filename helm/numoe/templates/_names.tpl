{{/* Names and labels. */}}

{{/* 40 characters: StatefulSets put a hash of 10 and pods a number behind it, and labels hold 63. */}}
{{- define "numoe.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "numoe.workersName" -}}{{ include "numoe.fullname" . }}-workers{{- end -}}
{{- define "numoe.routerName" -}}{{ include "numoe.fullname" . }}-router{{- end -}}
{{- define "numoe.scriptsName" -}}{{ include "numoe.fullname" . }}-scripts{{- end -}}

{{- define "numoe.claimName" -}}
{{- if eq .Values.persistence.mode "existing" }}{{ .Values.persistence.existingClaim }}{{ else }}{{ include "numoe.fullname" . }}-weights{{ end -}}
{{- end -}}

{{- define "numoe.serviceAccountName" -}}
{{- default (ternary (include "numoe.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "numoe.tlsSecretName" -}}
{{- default (printf "%s-tls" (include "numoe.fullname" .)) .Values.tls.secretName -}}
{{- end -}}

{{/* The Secrets of mutual TLS. */}}
{{- define "numoe.workerTlsSecretName" -}}
{{- default (printf "%s-mtls" (include "numoe.workersName" .)) .Values.mtls.workerSecretName -}}
{{- end -}}
{{- define "numoe.coordinatorTlsSecretName" -}}
{{- default (printf "%s-mtls" (include "numoe.fullname" .)) .Values.mtls.coordinatorSecretName -}}
{{- end -}}

{{/* What selectors use: never changes within a release. Arguments: root, component. */}}
{{- define "numoe.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "numoe.labels" -}}
{{ include "numoe.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of a pod template. Without the chart's version: a new one alone must not restart what took half an hour to load. */}}
{{- define "numoe.podLabels" -}}
{{ include "numoe.selector" . }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Head of an object's metadata. Arguments: root, component, name. */}}
{{- define "numoe.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "numoe.labels" . | nindent 2 }}
{{- end -}}

{{- define "numoe.image" -}}
{{- $image := .Values.image -}}
{{- $tag := default (printf "%s%s" .Chart.AppVersion (ternary "-cuda" "" (gt (int .Values.coordinator.gpu.count) 0))) $image.tag -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $tag }}{{ end -}}
{{- end -}}

{{/* Directory of the model: absolute. */}}
{{- define "numoe.modelPath" -}}
{{- $directory := .Values.model.directory -}}
{{- if and (not $directory) .Values.model.repository -}}
{{- $directory = base .Values.model.repository | lower -}}
{{- if regexMatch "^[0-9a-f]{40}$" .Values.model.revision }}{{ $directory = printf "%s-%s" $directory (trunc 8 .Values.model.revision) }}{{ end -}}
{{- end -}}
{{- ternary $directory (printf "/models/%s" $directory) (hasPrefix "/" $directory) -}}
{{- end -}}

{{- define "numoe.packedPath" -}}
{{ include "numoe.modelPath" . }}-{{ .Values.pack.format }}-{{ include "numoe.slice" . }}-{{ include "numoe.workerTotal" . }}
{{- end -}}
