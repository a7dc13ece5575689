"""The choices at the top of a dashboard. Each choice narrows those after it."""

from .panels import DATASOURCE

# Choices that may have no values, and why.
MAY_BE_EMPTY = {"namespace": "only scrapes in Kubernetes have the label"}


def datasource():
    return {
        "current": {},
        "hide": 0,
        "includeAll": False,
        "label": "Prometheus",
        "multi": False,
        "name": "datasource",
        "options": [],
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "type": "datasource",
    }


def _labels(name, label, query, all_value):
    variable = {
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": DATASOURCE,
        "definition": query,
        "hide": 0,
        "includeAll": True,
        "label": label,
        "multi": True,
        "name": name,
        "options": [],
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "refresh": 2,
        "regex": "",
        "sort": 3,
        "type": "query",
    }
    if all_value:
        variable["allValue"] = all_value
    return variable


def namespace():
    return _labels("namespace", "Namespace", "label_values(holdfast_node_info, namespace)", ".*")


def job():
    # No value for all: then All is the list of these jobs, and `up` of other programs stays out.
    family = '{__name__=~"holdfast_node_info|holdfast_router_groups_without_leader", namespace=~"$namespace"}'
    return _labels("job", "Job", f"label_values({family}, job)", None)


def node():
    selected = 'namespace=~"$namespace", job=~"$job"'
    return _labels("node", "Node", f"label_values(holdfast_node_info{{{selected}}}, node)", ".*")


def group():
    selected = 'namespace=~"$namespace", job=~"$job"'
    return _labels("group", "Raft group", f"label_values(holdfast_raft_term{{{selected}}}, group)", ".*")
