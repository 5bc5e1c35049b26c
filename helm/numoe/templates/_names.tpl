{{/*
  Names and labels. A name that a user chose is printed through toYaml wherever it stands alone: YAML readers would take a release
  called on, null, 123 or 1e3 for something other than a string, and the API server would refuse its objects.
*/}}

{{/*
  The name itself if it has at most max characters. A longer one is shortened and ends in a hash of the whole name, so that two names with
  the same beginning remain different. Arguments: name, max.
*/}}
{{- define "numoe.cut" -}}
{{- if le (len .name) (int .max) -}}
{{- .name -}}
{{- else -}}
{{- printf "%s-%s" (.name | trunc (sub .max 9 | int) | trimAll "-_.") (sha256sum .name | trunc 8) -}}
{{- end -}}
{{- end -}}

{{/* At most 40 characters, because StatefulSets append a hash of 10 characters and pods a number, and labels hold 63. */}}
{{- define "numoe.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $whole := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- include "numoe.cut" (dict "name" (default $whole .Values.fullnameOverride) "max" 40) -}}
{{- end -}}

{{- define "numoe.workersName" -}}{{ include "numoe.fullname" . }}-workers{{- end -}}
{{- define "numoe.routerName" -}}{{ include "numoe.fullname" . }}-router{{- end -}}
{{- define "numoe.pickerName" -}}{{ include "numoe.fullname" . }}-picker{{- end -}}
{{- define "numoe.scriptsName" -}}{{ include "numoe.fullname" . }}-scripts{{- end -}}

{{- define "numoe.claimName" -}}
{{- if eq .Values.persistence.mode "existing" }}{{ .Values.persistence.existingClaim }}{{ else }}{{ include "numoe.fullname" . }}-weights{{ end -}}
{{- end -}}

{{- define "numoe.heatName" -}}{{ include "numoe.fullname" . }}-heat{{- end -}}

{{- define "numoe.serviceAccountName" -}}
{{- default (ternary (include "numoe.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "numoe.tlsSecretName" -}}
{{- default (printf "%s-tls" (include "numoe.fullname" .)) .Values.tls.secretName -}}
{{- end -}}

{{/* The names of the Secrets for mutual TLS. */}}
{{- define "numoe.workerTlsSecretName" -}}
{{- default (printf "%s-mtls" (include "numoe.workersName" .)) .Values.mtls.workerSecretName -}}
{{- end -}}
{{- define "numoe.coordinatorTlsSecretName" -}}
{{- default (printf "%s-mtls" (include "numoe.fullname" .)) .Values.mtls.coordinatorSecretName -}}
{{- end -}}

{{/* The labels that selectors use, which never change within a release. Arguments: root, component. */}}
{{- define "numoe.selector" -}}
app.kubernetes.io/name: {{ include "numoe.cut" (dict "name" (default .root.Chart.Name .root.Values.nameOverride) "max" 63) | toYaml }}
app.kubernetes.io/instance: {{ toYaml .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "numoe.labels" -}}
{{ include "numoe.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ include "numoe.cut" (dict "name" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") "max" 63) | toYaml }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The labels of a pod template. They leave out the chart's version, because a new version alone must not restart pods that took half an hour to load. */}}
{{- define "numoe.podLabels" -}}
{{ include "numoe.selector" . }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The head of an object's metadata, which ends with the labels, so that more can be appended. Arguments: root, component, name, annotations (of this object; may be left out). */}}
{{- define "numoe.metadata" -}}
name: {{ toYaml .name }}
namespace: {{ toYaml .root.Release.Namespace }}
{{- with merge (dict) (default dict .annotations) .root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "numoe.labels" . | nindent 2 }}
{{- end -}}

{{/*
  The full name of an image. global.imageRegistry, which charts share, replaces the repository's own registry. Arguments: root,
  repository, tag, digest (takes precedence over the tag).
*/}}
{{- define "numoe.imageName" -}}
{{- $repository := .repository -}}
{{- with get (default dict .root.Values.global) "imageRegistry" -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- if .digest }}{{ printf "%s@%s" $repository .digest | toYaml }}{{ else }}{{ printf "%s:%s" $repository .tag | toYaml }}{{ end -}}
{{- end -}}

{{/* The chart's own image. Arguments: root, gpu (whether the pod has GPUs; its image has the CUDA device and is six times as large). */}}
{{- define "numoe.image" -}}
{{- $image := .root.Values.image -}}
{{- $tag := default .root.Chart.AppVersion $image.tag -}}
{{- $digest := $image.digest -}}
{{- if .gpu -}}
{{- $tag = default (printf "%s-cuda" (trimSuffix "-cuda" $tag)) $image.cuda.tag -}}
{{- $digest = $image.cuda.digest -}}
{{- end -}}
{{- include "numoe.imageName" (dict "root" .root "repository" $image.repository "tag" $tag "digest" $digest) -}}
{{- end -}}

{{- define "numoe.gpuPod" -}}{{ if gt (int .Values.coordinator.gpu.count) 0 }}true{{ end }}{{- end -}}

{{/* The absolute path of the model's directory, without a / at its end. */}}
{{- define "numoe.modelPath" -}}
{{- $directory := trimSuffix "/" .Values.model.directory -}}
{{- if and (not $directory) .Values.model.repository -}}
{{- $directory = base .Values.model.repository | lower -}}
{{- if regexMatch "^[0-9a-f]{40}$" .Values.model.revision }}{{ $directory = printf "%s-%s" $directory (trunc 8 .Values.model.revision) }}{{ end -}}
{{- end -}}
{{- ternary $directory (printf "/models/%s" $directory) (hasPrefix "/" $directory) -}}
{{- end -}}

{{- define "numoe.packedPath" -}}
{{ include "numoe.modelPath" . }}-{{ .Values.pack.format }}-{{ include "numoe.slice" . }}-{{ include "numoe.workerTotal" . }}
{{- end -}}
