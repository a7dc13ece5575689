{{/* What a schema cannot say. */}}
{{- define "holdfast.validate" -}}
{{- if not .Values.tls.mode -}}
{{- fail "tls.mode is not set. certManager: cert-manager makes the certificates (name its issuer in tls.certManager.issuerRef.name); secrets: you bring them in Secrets; off: no TLS, so that whoever reaches the port of a node can read and change everything" -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "certManager") (not .Values.tls.certManager.issuerRef.name) -}}
{{- fail "tls.mode is certManager, but tls.certManager.issuerRef.name is not set: name an Issuer whose CA issues for this cluster alone" -}}
{{- end -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if and (eq $tag "latest") (not .Values.image.digest) -}}
{{- fail "image.tag is `latest`: nodes would change version whenever one restarts. Name a version, or set image.digest" -}}
{{- end -}}
{{- with .Values.router.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "router.autoscaling.minReplicas (%d) is above maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.metricsFrom) -}}
{{- fail "metrics.serviceMonitor is enabled, but the network policy lets nobody reach the admin ports: name Prometheus in networkPolicy.metricsFrom, for example [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], or disable networkPolicy" -}}
{{- end -}}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") -}}
{{- fail "service.nodePort needs service.type NodePort or LoadBalancer" -}}
{{- end -}}
{{- $name := printf "%s-config" (include "holdfast.fullname" .) -}}
{{- with lookup "v1" "ConfigMap" .Release.Namespace $name -}}
{{- $founded := dig "metadata" "annotations" "holdfast/nodes" "" . -}}
{{- $wanted := toString (int $.Values.node.replicas) -}}
{{- if and $founded (ne $founded $wanted) -}}
{{- fail (printf "node.replicas is %s, but this cluster was founded with %s nodes, and its membership is fixed. Set node.replicas back to %s; to change it, move the data to a new release" $wanted $founded $founded) -}}
{{- end -}}
{{- end -}}
{{- end -}}
