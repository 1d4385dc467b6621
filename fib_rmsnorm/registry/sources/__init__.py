"""Sources on disk: manifests, what they include, packing them into Solutions, and drafts of loose files."""
