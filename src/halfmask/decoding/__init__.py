"""From a canvas with holes to a full one: what people do with a trained model."""
