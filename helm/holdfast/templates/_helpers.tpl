{{- define "holdfast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* 40 characters: a StatefulSet's name goes into a label with 11 more, and ours adds up to 12. */}}
{{- define "holdfast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select; they never change. (dict "root" $ "component" "node") */}}
{{- define "holdfast.selector" -}}
app.kubernetes.io/name: {{ include "holdfast.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: holdfast
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: without the chart's version, which would restart every pod at each new chart. */}}
{{- define "holdfast.podLabels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/part-of: holdfast
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- with .extra }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "holdfast.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "holdfast.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.keySecret" -}}
{{- default (printf "%s-first-key" (include "holdfast.fullname" .)) .Values.firstKey.existingSecret -}}
{{- end -}}

{{/* The name under which nodes find each other, less the pod's. */}}
{{- define "holdfast.nodeDomain" -}}
{{- printf "%s-node.%s.svc.%s" (include "holdfast.fullname" .) .Release.Namespace .Values.clusterDomain -}}
{{- end -}}

{{/* What all pods have in common. */}}
{{- define "holdfast.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
serviceAccountName: {{ include "holdfast.serviceAccount" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "holdfast.container" -}}
image: {{ include "holdfast.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* (dict "values" .Values.node) */}}
{{- define "holdfast.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "component" "node" "spread" .Values.node.spread). Machines under maintenance do
not count, or their pods could not go elsewhere. */}}
{{- define "holdfast.spread" -}}
{{- $selector := include "holdfast.selector" . -}}
{{- $rules := list (list "kubernetes.io/hostname" .spread.machines) (list "topology.kubernetes.io/zone" .spread.zones) -}}
{{- if or (ne .spread.machines "Off") (ne .spread.zones "Off") -}}
topologySpreadConstraints:
{{- range $rules }}
{{- if ne (last .) "Off" }}
  - maxSkew: 1
    topologyKey: {{ first . }}
    whenUnsatisfiable: {{ last . }}
    nodeTaintsPolicy: Honor
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
