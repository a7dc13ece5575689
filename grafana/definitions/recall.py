"""The path of a recall: each step from the request to the answer, in its order."""

from . import limits, variables
from .panels import Dashboard, Panel, Query, Row, mean, quantile

RECALL = f'<router>, route=~"{limits.RECALL_ROUTES}"'
RECALLS = "sum(rate(holdfast_recall_seconds_count{<node>}[<rate>]))"
LOADS = 'holdfast_recall_step_seconds_bucket{<node>, step="load"'


def _step(step):
    """Mean time of one step of the recalls on the nodes."""
    selector = f'{{<node>, step="{step}"}}'
    return (
        f"sum(rate(holdfast_recall_step_seconds_sum{selector}[<rate>]))"
        f" / sum(rate(holdfast_recall_step_seconds_count{selector}[<rate>]))"
    )


def _whole(metric, selector):
    return f"sum(rate({metric}_sum{{{selector}}}[<rate>])) / sum(rate({metric}_count{{{selector}}}[<rate>]))"


PATH = Row(
    "The whole path",
    (
        Panel(
            "Where the time of a recall goes",
            "Mean times, from the outside in: the whole answer at the router, one batch of the embedding model, the "
            "recall on the node, and its four steps: wait for the replica and a thread, load the space, scan it, show "
            "(read) the answers.",
            "the longest bar names the row below to look at. Router much longer than model and node together: the "
            "routers are short of processors, or the network is slow.",
            "s",
            (
                Query(_whole("holdfast_router_request_seconds", RECALL), "answer at the router"),
                Query(_whole("holdfast_router_embed_seconds", "<router>"), "a batch in the model"),
                Query(_whole("holdfast_recall_seconds", "<node>"), "recall on the node"),
                Query(_step("wait"), "  wait"),
                Query(_step("load"), "  load"),
                Query(_step("scan"), "  scan"),
                Query(_step("show"), "  show"),
            ),
            kind="bargauge",
            width=12,
        ),
        Panel(
            "Latency at the router",
            "Time from a recall's arrival to its answer.",
            "runbook HoldfastRecallSlow. P99 high with a low P50: a few users with large or cold spaces, or a restart.",
            "s",
            (
                Query(quantile(0.5, "holdfast_router_request_seconds", RECALL), "P50"),
                Query(quantile(0.95, "holdfast_router_request_seconds", RECALL), "P95"),
                Query(quantile(0.99, "holdfast_router_request_seconds", RECALL), "P99"),
            ),
            width=12,
            limits=((limits.RECALL_P99_SECONDS, "red"),),
        ),
        Panel(
            "Recalls by result",
            "Recalls per second by error code; ok is success.",
            "docs/errors says for each code whose fault it is; runbook HoldfastErrorRate for the server's.",
            "reqps",
            (Query(f"sum by (code) (rate(holdfast_router_requests_total{{{RECALL}}}[<rate>]))", "{{code}}"),),
        ),
        Panel(
            "Distribution at the router",
            "How many recalls took how long.",
            "two bands mean two sorts of recalls: spaces in memory and spaces that are loaded first.",
            "s",
            (
                Query(
                    f"sum by (le) (increase(holdfast_router_request_seconds_bucket{{{RECALL}}}[<rate>]))",
                    "{{le}}",
                    format="heatmap",
                ),
            ),
            kind="heatmap",
        ),
        Panel(
            "Calls repeated by routers",
            "behind: the replica had not yet seen what the caller had; not_leader: the leader changed; transport: no "
            "connection; retry: the node asked for it; wrong_shard: it has moved. Each costs the recall a round.",
            "see Raft on Holdfast / Overview.",
            "reqps",
            (Query("sum by (reason) (rate(holdfast_router_retries_total{<router>}[<rate>]))", "{{reason}}"),),
        ),
        Panel(
            "Reads by consistency and who answered",
            "Reads of spaces per second: leader, replica (another one that proved its freshness), hedge (a follower that "
            "answered in a slow leader's place), failed.",
            "failed: runbook HoldfastErrorRate; bounded reads that mostly end at the leader ask for bounds that followers "
            "cannot prove.",
            "reqps",
            (
                Query(
                    "sum by (consistency, outcome) (rate(holdfast_router_reads_total{<router>}[<rate>]))",
                    "{{consistency}}: {{outcome}}",
                ),
            ),
        ),
        Panel(
            "Hedges",
            "Reads per second that were also asked of a follower: won (it answered first), lost, behind (it had not seen "
            "enough), failed. At most 5 of 100 reads are hedged.",
            "many that are won: leaders are slow, look at their nodes; many that are behind: runbook HoldfastReplicaLag.",
            "reqps",
            (Query("sum by (outcome) (rate(holdfast_router_hedges_total{<router>}[<rate>]))", "{{outcome}}"),),
        ),
        Panel(
            "Reads at the nodes",
            "Reads that routers asked of replicas, per second, by consistency and by what the replica said.",
            "behind: it had not seen what was asked, or could not prove its freshness; another one was asked.",
            "reqps",
            (
                Query(
                    "sum by (consistency, outcome) (rate(holdfast_node_reads_total{<node>}[<rate>]))",
                    "{{consistency}}: {{outcome}}",
                ),
            ),
        ),
    ),
)

CONTEXTS = Row(
    "Contexts, on the router",
    (
        Panel(
            "Time of a context by step",
            "P99 of the steps of a context: embedding the query, searching, assembling.",
            "assembling grows: large budgets, or encodings for which no counts are stored; give routers more cores.",
            "s",
            (Query(quantile(0.99, "holdfast_router_context_seconds", "<router>", "step"), "{{step}}"),),
        ),
        Panel(
            "Tokens of contexts",
            "Tokens per second that contexts hand over, and those that all candidates would have taken beyond them.",
            "nothing is saved: budgets are larger than what is remembered.",
            "none",
            (Query("sum by (kind) (rate(holdfast_router_context_tokens_total{<router>}[<rate>]))", "{{kind}}"),),
        ),
        Panel(
            "Items of contexts, by section",
            "Items per second that entered a context.",
            "few memories beside a window: budgets are spent on the conversation; give more, or end sessions.",
            "ops",
            (Query("sum by (section) (rate(holdfast_router_context_items_total{<router>}[<rate>]))", "{{section}}"),),
        ),
        Panel(
            "Left out, by reason",
            "Candidates per second that did not enter a context.",
            "many duplicates or conflicts: memories repeat each other, or are out of date; see what agents store.",
            "ops",
            (Query("sum by (reason) (rate(holdfast_router_context_left_out_total{<router>}[<rate>]))", "{{reason}}"),),
        ),
    ),
)

EMBED = Row(
    "1. Embedding, on the router",
    (
        Panel(
            "Time of a batch",
            "Time of one batch in the embedding model; recalls and writes share it.",
            "give routers more cores, or add routers; large imports at the same time slow recalls down.",
            "s",
            (
                Query(quantile(0.5, "holdfast_router_embed_seconds", "<router>"), "P50"),
                Query(quantile(0.99, "holdfast_router_embed_seconds", "<router>"), "P99"),
            ),
        ),
        Panel(
            "Texts and batches",
            "Texts and batches per second through the model, all routers together.",
            "texts at zero while recalls run: the routers run without the model (see /readyz) and recall by keywords "
            "alone.",
            "ops",
            (
                Query("sum(rate(holdfast_router_embedded_texts_total{<router>}[<rate>]))", "texts"),
                Query("sum(rate(holdfast_router_embed_seconds_count{<router>}[<rate>]))", "batches"),
            ),
        ),
        Panel(
            "Processor time in the model",
            "Seconds per second that each router spends in the model.",
            "a value near the number of its cores: this router is full, add another.",
            "none",
            (Query("sum by (instance) (rate(holdfast_router_embed_seconds_sum{<router>}[<rate>]))", "{{instance}}"),),
            decimals=2,
        ),
    ),
)

NODE = Row(
    "2. Search, on the node that leads the space's group",
    (
        Panel(
            "Recall calls by code",
            "Calls of routers for recalls, by code; cancelled is a router that went away or asked another node.",
            "not_leader or behind in bursts follows elections.",
            "reqps",
            (Query('sum by (code) (rate(holdfast_node_calls_total{<node>, method="recall"}[<rate>]))', "{{code}}"),),
        ),
        Panel(
            "Call time per node, P99",
            "Time from a router's recall call to the node's answer.",
            "one node slower than the others: its processor, memory or disk; all slow: larger spaces or more load.",
            "s",
            (
                Query(
                    quantile(0.99, "holdfast_node_call_seconds", '<node>, method="recall"', "node"), "node {{node}}"
                ),
            ),
        ),
        Panel(
            "Recalls by index",
            "Recalls per second by the index that answered: exact scores every visible row.",
            "only the kinds of index that this version has appear here.",
            "reqps",
            (Query("sum by (index) (rate(holdfast_recall_seconds_count{<node>}[<rate>]))", "{{index}}"),),
            stacked=True,
        ),
        Panel(
            "Recall time by index, P99",
            "Time of a whole recall on the node, by the index that answered.",
            "exact grows with the rows scored (right).",
            "s",
            (Query(quantile(0.99, "holdfast_recall_seconds", "<node>", "index"), "{{index}}"),),
        ),
        Panel(
            "Rows scored per recall",
            "Mean number of rows that one recall scored.",
            "it is the size of the spaces that are asked: let memories expire, or expect longer scans.",
            "short",
            (Query(f"sum(rate(holdfast_recall_scored_rows_total{{<node>}}[<rate>])) / {RECALLS}", "rows"),),
        ),
        Panel(
            "Time by step, P99",
            "The steps of a recall: wait for the replica and a thread, load the space, scan it, show the answers.",
            "wait: too few threads or a replica that is behind; load: spaces do not stay in memory (below); scan: "
            "large spaces; show: the disk of the state is slow.",
            "s",
            (Query(quantile(0.99, "holdfast_recall_step_seconds", "<node>", "step"), "{{step}}"),),
        ),
    ),
)

SPACES = Row(
    "3. Spaces in memory",
    (
        Panel(
            "Recalls that loaded a space",
            "Share of recalls whose step load took longer than 1 ms: the space was not in memory and was built from "
            "its rows.",
            "high after a restart, then it falls. If it stays high: runbook HoldfastSpacesThrash.",
            "percentunit",
            (
                Query(
                    f'1 - sum(rate({LOADS}, le="0.001"}}[<rate>])) / sum(rate({LOADS}, le="+Inf"}}[<rate>]))', "loaded"
                ),
            ),
            maximum=1,
        ),
        Panel(
            "Load time",
            "Time of the step load: next to nothing for a space in memory, else the time to build it.",
            "grows with the size of the spaces and with the disk's latency.",
            "s",
            (
                Query(quantile(0.5, "holdfast_recall_step_seconds", '<node>, step="load"'), "P50"),
                Query(quantile(0.99, "holdfast_recall_step_seconds", '<node>, step="load"'), "P99"),
            ),
        ),
        Panel(
            "Spaces dropped",
            "Spaces dropped from memory per second: evicted for want of room, worn because too many rows were dead.",
            "steady evictions: raise node.spaces_bytes; runbook HoldfastSpacesThrash.",
            "ops",
            (
                Query("sum by (node) (rate(holdfast_spaces_evicted_total{<node>}[<rate>]))", "node {{node}}: evicted"),
                Query("sum by (node) (rate(holdfast_spaces_worn_total{<node>}[<rate>]))", "node {{node}}: worn"),
            ),
        ),
        Panel(
            "Spaces in memory",
            "Spaces in memory and being loaded, per node.",
            "many being loaded at once: a restart, or thrash.",
            "none",
            (
                Query("sum by (node) (holdfast_spaces_live{<node>})", "node {{node}}: in memory"),
                Query("sum by (node) (holdfast_spaces_loading{<node>})", "node {{node}}: loading"),
            ),
        ),
        Panel(
            "Memory used of what is allowed",
            "Share of node.spaces_bytes that spaces take.",
            "full is no fault by itself; full with steady evictions is too small.",
            "percentunit",
            (
                Query(
                    "sum by (node) (holdfast_spaces_bytes{<node>}) / sum by (node) (holdfast_spaces_budget_bytes{<node>})",
                    "node {{node}}",
                ),
            ),
            maximum=1,
        ),
        Panel(
            "Mean size of a space in memory",
            "Bytes of memory per space, being loaded or in memory.",
            "times the number of active users it tells how much memory is needed.",
            "bytes",
            (
                Query(
                    "sum(holdfast_spaces_bytes{<node>})"
                    " / clamp_min(sum(holdfast_spaces_live{<node>}) + sum(holdfast_spaces_loading{<node>}), 1)",
                    "per space",
                ),
            ),
        ),
        Panel(
            "Graphs and lists",
            "Graphs (HNSW) and inverted lists (IVF) that answer, per node.",
            "none where spaces are small; the exact scan answers then.",
            "none",
            (
                Query("sum by (node) (holdfast_graphs{<node>})", "node {{node}}: graphs"),
                Query("sum by (node) (holdfast_lists{<node>})", "node {{node}}: lists"),
            ),
        ),
        Panel(
            "Memory of graphs and lists",
            "Memory of graphs, and memory that goes with lists in files, per node.",
            "both are part of node.spaces_bytes; where they leave no room for spaces, look at Spaces dropped.",
            "bytes",
            (
                Query("sum by (node) (holdfast_graph_bytes{<node>})", "node {{node}}: graphs"),
                Query("sum by (node) (holdfast_list_bytes{<node>})", "node {{node}}: lists"),
            ),
        ),
        Panel(
            "Graphs and lists made",
            "Graphs that were built or read from their files, and files of lists that were made, per second.",
            "read where spaces are loaded again; built again and again: their files are lost, look at Graphs and lists given up.",
            "ops",
            (
                Query("sum by (node) (rate(holdfast_graphs_built_total{<node>}[<rate>]))", "node {{node}}: graphs built"),
                Query("sum by (node) (rate(holdfast_graphs_loaded_total{<node>}[<rate>]))", "node {{node}}: graphs read"),
                Query("sum by (node) (rate(holdfast_lists_built_total{<node>}[<rate>]))", "node {{node}}: lists made"),
            ),
        ),
        Panel(
            "Building of graphs and lists",
            "Share of a processor that builds graphs and lists, per node.",
            "high for a while after loading large spaces for the first time; all the time: graphs are lost and built again, look at Spaces dropped.",
            "percentunit",
            (
                Query("sum by (node) (rate(holdfast_graph_build_seconds_total{<node>}[<rate>]))", "node {{node}}: graphs"),
                Query("sum by (node) (rate(holdfast_list_build_seconds_total{<node>}[<rate>]))", "node {{node}}: lists"),
            ),
        ),
        Panel(
            "Graphs and lists given up",
            "Graphs and lists given up for want of room, and files of them that failed, per second.",
            "graphs: raise node.spaces_bytes; lists: the disk is full; files: look at the log for the disk's errors.",
            "ops",
            (
                Query("sum by (node) (rate(holdfast_graphs_refused_total{<node>}[<rate>]))", "node {{node}}: graphs"),
                Query("sum by (node) (rate(holdfast_lists_refused_total{<node>}[<rate>]))", "node {{node}}: lists"),
                Query("sum by (node) (rate(holdfast_index_files_failed_total{<node>}[<rate>]))", "node {{node}}: files"),
            ),
        ),
    ),
)

SIZES = Row(
    "4. What is searched",
    (
        Panel(
            "Largest groups, rows",
            "The ten groups with the most rows of state.",
            "one group far above the others holds a very large user.",
            "short",
            (Query("topk(10, max by (group) (holdfast_state_rows{<group>}))", "group {{group}}"),),
            width=12,
        ),
        Panel(
            "Largest groups, bytes on disk",
            "The ten groups whose state takes most of the disk.",
            "as for rows.",
            "bytes",
            (Query("topk(10, max by (group) (holdfast_state_disk_bytes{<group>}))", "group {{group}}"),),
            width=12,
        ),
    ),
)

DASHBOARD = Dashboard(
    uid="holdfast-recall",
    title="Holdfast / Recall",
    description="The path of a recall, from the request to the answer. Every panel says what it shows and what to do "
    "when it looks bad.",
    rows=(PATH, EMBED, NODE, SPACES, SIZES, CONTEXTS),
    variables=(
        variables.datasource(),
        variables.namespace(),
        variables.job(),
        variables.node(),
        variables.group(),
    ),
)
