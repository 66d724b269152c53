module record

go 1.24

require k8s.io/apiextensions-apiserver v0.34.1
