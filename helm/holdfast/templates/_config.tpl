{{/* One value in TOML. Helm's own toToml writes whole numbers as fractions, which are no integers. */}}
{{- define "holdfast.toml.value" -}}
{{- if kindIs "string" . -}}{{ toJson . }}
{{- else if kindIs "bool" . -}}{{ . }}
{{- else if kindIs "slice" . -}}[{{ range $i, $item := . }}{{ if $i }}, {{ end }}{{ include "holdfast.toml.value" $item }}{{ end }}]
{{- else -}}{{ printf "%d" (int64 .) }}
{{- end -}}
{{- end -}}

{{/* A section: (dict "name" "node" "settings" (dict …)) */}}
{{- define "holdfast.toml.section" -}}
[{{ .name }}]
{{- range $key, $value := .settings }}
{{ $key }} = {{ include "holdfast.toml.value" $value }}
{{- end }}
{{- end -}}

{{/* What all processes agree on: every node, by the stable name of its pod, and whether there is TLS. Changing the number is refused: see validate. */}}
{{- define "holdfast.toml.cluster" -}}
{{- $seeds := list -}}
{{- range $i := until (int .Values.node.replicas) -}}
{{- $seeds = append $seeds (printf "%s-node-%d.%s:7800" (include "holdfast.fullname" $) $i (include "holdfast.nodeDomain" $)) -}}
{{- end -}}
{{- include "holdfast.toml.section" (dict "name" "cluster" "settings" (dict "seeds" $seeds "shards" .Values.shards)) }}

{{ include "holdfast.toml.section" (dict "name" "tls" "settings" (merge (dict "mode" (ternary "on" "off" (ne .Values.tls.mode "off"))) .Values.config.tls)) -}}
{{- end -}}

{{/* `advertise` comes from the pod's name by the environment. A folder inside the volume: its root
may hold a lost+found. */}}
{{- define "holdfast.toml.node" -}}
{{- $ours := dict "data" "/data/node" "listen" (printf "%s:7800" .Values.bindAddress) "admin" (printf "%s:7801" .Values.bindAddress) -}}
{{- include "holdfast.toml.section" (dict "name" "node" "settings" (merge $ours .Values.config.node)) }}

{{ include "holdfast.toml.section" (dict "name" "log" "settings" .Values.config.log) }}
{{- end -}}

{{- define "holdfast.toml.router" -}}
{{- $ours := dict "http" (printf "%s:7700" .Values.bindAddress) "admin" (printf "%s:7701" .Values.bindAddress)
      "drain_delay_ms" (mul 1000 (int .Values.router.drainDelaySeconds))
      "shutdown_grace_ms" (mul 1000 (int .Values.router.shutdownGraceSeconds)) -}}
{{- include "holdfast.toml.section" (dict "name" "router" "settings" (merge $ours .Values.config.router)) }}

{{ include "holdfast.toml.section" (dict "name" "embedder" "settings" .Values.config.embedder) }}
{{- end -}}

{{- define "holdfast.toml" -}}
{{ include "holdfast.toml.cluster" . }}

{{ include "holdfast.toml.node" . }}

{{ include "holdfast.toml.router" . }}
{{- end -}}

{{/* Changes when something that nodes read has changed, and only then: routers' settings must not
restart nodes. */}}
{{- define "holdfast.checksum.node" -}}
{{- printf "%s\n%s" (include "holdfast.toml.cluster" .) (include "holdfast.toml.node" .) | sha256sum -}}
{{- end -}}

{{- define "holdfast.checksum.router" -}}
{{- printf "%s\n%s\n%s" (include "holdfast.toml.cluster" .) (include "holdfast.toml.router" .) (toJson .Values.config.log) | sha256sum -}}
{{- end -}}
