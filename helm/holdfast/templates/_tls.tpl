{{/* Whether there is TLS. */}}
{{- define "holdfast.tls" -}}
{{- if ne .Values.tls.mode "off" -}}true{{- end -}}
{{- end -}}

{{/* The Secret of one who has a certificate. (dict "root" $ "who" "node-0") */}}
{{- define "holdfast.tlsSecret" -}}
{{- $prefix := default (printf "%s-tls" (include "holdfast.fullname" .root)) .root.Values.tls.secretPrefix -}}
{{- printf "%s-%s" $prefix .who -}}
{{- end -}}

{{/* Where a process finds its files: below its own name, since a pod of the StatefulSet is given those of all.
(dict "root" $ "who" "$(POD_NAME)") */}}
{{- define "holdfast.tlsEnv" -}}
- name: HOLDFAST_TLS__CA
  value: "/etc/holdfast-tls/{{ .who }}/ca.crt"
- name: HOLDFAST_TLS__CERT
  value: "/etc/holdfast-tls/{{ .who }}/tls.crt"
- name: HOLDFAST_TLS__KEY
  value: "/etc/holdfast-tls/{{ .who }}/tls.key"
{{- end -}}

{{/* A volume with the certificates of these. Renewed Secrets arrive in it, so there is no subPath.
(dict "root" $ "of" (list (list "node-0" "folder"))) */}}
{{- define "holdfast.tlsVolume" -}}
- name: tls
  projected:
    # Readable by the group of the process, and by nobody else.
    defaultMode: 288
    sources:
      {{- range .of }}
      - secret:
          name: {{ include "holdfast.tlsSecret" (dict "root" $.root "who" (first .)) }}
          items:
            - key: ca.crt
              path: {{ last . }}/ca.crt
            - key: tls.crt
              path: {{ last . }}/tls.crt
            - key: tls.key
              path: {{ last . }}/tls.key
      {{- end }}
{{- end -}}

{{- define "holdfast.tlsMount" -}}
- name: tls
  mountPath: /etc/holdfast-tls
  readOnly: true
{{- end -}}

{{/* One certificate of cert-manager. (dict "root" $ "who" "node-0" "component" "node" "uri" … "host" …) */}}
{{- define "holdfast.certificate" -}}
{{- $name := include "holdfast.tlsSecret" (dict "root" .root "who" .who) -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "holdfast.labels" (dict "root" .root "component" .component) | nindent 4 }}
spec:
  secretName: {{ $name }}
  duration: {{ .root.Values.tls.certManager.duration }}
  renewBefore: {{ .root.Values.tls.certManager.renewBefore }}
  privateKey:
    algorithm: ECDSA
    size: 256
    rotationPolicy: Always
  commonName: {{ .component }}
  uris:
    - {{ .uri | quote }}
  {{- with .host }}
  dnsNames:
    - {{ . | quote }}
  {{- end }}
  usages:
    - digital signature
    - client auth
    {{- if .host }}
    - server auth
    {{- end }}
  issuerRef:
    name: {{ .root.Values.tls.certManager.issuerRef.name }}
    kind: {{ .root.Values.tls.certManager.issuerRef.kind }}
    group: {{ .root.Values.tls.certManager.issuerRef.group }}
{{- end -}}
