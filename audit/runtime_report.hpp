// A program that was linked with cudeploy's runtime writes which CUDA runtimes were in its process, as JSON: what every
// object loads must stay small. People read it here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cudeploy {

/// What a document of CUDEPLOY_REPORT or cudeploy_report_json (runtime_static/report.schema.json) says, as text: one
/// line per fact, the notes word for word, all of it safe on a terminal. `name` stands in the first line. Throws
/// std::runtime_error with the field that is not as the schema has it.
std::string runtime_report_text(const std::string& name, const nlohmann::json& document);

}  // namespace cudeploy
